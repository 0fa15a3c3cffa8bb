// From a panel's answers to fields ready to draw: Grafana's own transformations, field settings and overrides.
import {
  type DataFrame,
  type FieldConfigPropertyItem,
  type FieldConfigSource,
  type GrafanaTheme2,
  FieldColorModeId,
  Registry,
  applyFieldOverrides,
  cacheFieldDisplayNames,
  dataLinksOverrideProcessor,
  displayNameOverrideProcessor,
  identityOverrideProcessor,
  numberOverrideProcessor,
  standardFieldConfigEditorRegistry,
  standardTransformers,
  standardTransformersRegistry,
  thresholdsOverrideProcessor,
  transformDataFrame,
  unitOverrideProcessor,
  valueMappingsOverrideProcessor,
} from '@grafana/data';
import type { Panel } from '@grafana/schema';
import { lastValueFrom } from 'rxjs';

type Process = FieldConfigPropertyItem['process'];

// Settings of a field that a dashboard may state, and how each is read. Grafana's server has the same list with an editor for each.
const SETTINGS: Record<string, Process> = {
  unit: unitOverrideProcessor as Process,
  min: numberOverrideProcessor as Process,
  max: numberOverrideProcessor as Process,
  decimals: numberOverrideProcessor as Process,
  displayName: displayNameOverrideProcessor as Process,
  noValue: identityOverrideProcessor,
  color: identityOverrideProcessor,
  thresholds: thresholdsOverrideProcessor as Process,
  mappings: valueMappingsOverrideProcessor as Process,
  links: dataLinksOverrideProcessor as Process,
};
// Settings of one kind of panel: "custom.<name>".
const CUSTOM = [
  ...['drawStyle', 'lineWidth', 'lineStyle', 'lineInterpolation', 'fillOpacity', 'gradientMode', 'showPoints', 'pointSize'],
  ...['spanNulls', 'stacking', 'scaleDistribution', 'thresholdsStyle', 'hideFrom', 'axisPlacement', 'axisLabel', 'axisSoftMin'],
  ...['axisSoftMax', 'cellOptions', 'width', 'minWidth', 'align', 'filterable', 'hidden', 'inspect'],
];

function setting(id: string, path: string, process: Process, isCustom: boolean): FieldConfigPropertyItem {
  return { id, path, name: id, isCustom, process, shouldApply: () => true, editor: () => null, override: () => null };
}

const registry = new Registry<FieldConfigPropertyItem>(() => [
  ...Object.entries(SETTINGS).map(([id, process]) => setting(id, id, process, false)),
  ...CUSTOM.map((name) => setting(`custom.${name}`, name, identityOverrideProcessor, true)),
]);

standardFieldConfigEditorRegistry.setInit(() => registry.list());
// Two share an id: the one is an old name of the other.
const { seriesToColumnsTransformer: _, ...transformers } = standardTransformers;
standardTransformersRegistry.setInit(() =>
  Object.values(transformers).map((transformation) => ({
    id: transformation.id,
    name: transformation.name,
    transformation,
    editor: () => null,
    imageDark: '',
    imageLight: '',
  })),
);

/** What a panel draws. */
export async function prepare(panel: Panel, answers: DataFrame[], theme: GrafanaTheme2): Promise<DataFrame[]> {
  const steps = (panel.transformations ?? []).map(({ id, options, filter }) => ({ id, options, filter }) as never);
  const data = steps.length ? await lastValueFrom(transformDataFrame(steps, answers)) : answers;
  const ready = applyFieldOverrides({
    data,
    fieldConfig: fieldConfig(panel),
    fieldConfigRegistry: registry,
    theme,
    timeZone: 'utc',
    replaceVariables: (text) => text ?? '',
  });
  cacheFieldDisplayNames(ready);
  return ready;
}

/** A panel's field settings; where it states no colours, those that its kind of panel begins with. An Error for one unknown here. */
export function fieldConfig(panel: Panel): FieldConfigSource {
  const stated = panel.fieldConfig as FieldConfigSource;
  const ids = [
    ...Object.keys(stated.defaults.custom ?? {}).map((name) => `custom.${name}`),
    ...Object.keys(stated.defaults).filter((id) => id !== 'custom'),
    ...stated.overrides.flatMap((override) => override.properties.map(({ id }) => id)),
  ];
  const unknown = ids.filter((id) => !registry.getIfExists(id));
  if (unknown.length) {
    throw new Error(`settings that this page does not know: ${unknown.join(', ')}`);
  }
  const mode = panel.type === 'timeseries' ? FieldColorModeId.PaletteClassic : FieldColorModeId.Thresholds;
  return { defaults: { color: { mode }, ...stated.defaults }, overrides: stated.overrides };
}
