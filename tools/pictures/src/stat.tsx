// Stat: one cell per value, as Grafana's panel of that name repeats them.
import { type FieldDisplay, getFieldDisplayValues, getDisplayValueAlignmentFactors } from '@grafana/data';
import type { Options } from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import { BigValue, VizRepeater, type VizRepeaterRenderValueProps } from '@grafana/ui';
import { VizOrientation } from '@grafana/schema';
import { fieldConfig } from './fields';
import type { Drawing } from './panel';

export function Stat({ panel, frames, theme, width, height }: Drawing) {
  const options = panel.options as unknown as Options;
  const values = () =>
    getFieldDisplayValues({
      data: frames,
      reduceOptions: options.reduceOptions,
      fieldConfig: fieldConfig(panel),
      replaceVariables: (text) => text ?? '',
      theme,
      timeZone: 'utc',
    });
  return (
    <VizRepeater<FieldDisplay, ReturnType<typeof getDisplayValueAlignmentFactors>>
      getValues={values}
      getAlignmentFactors={getDisplayValueAlignmentFactors}
      source={frames}
      orientation={options.orientation ?? VizOrientation.Auto}
      itemSpacing={3}
      autoGrid
      renderCounter={1}
      width={width}
      height={height}
      renderValue={(cell: VizRepeaterRenderValueProps<FieldDisplay>) => (
        <BigValue
          value={cell.value.display}
          count={cell.count}
          colorMode={options.colorMode as never}
          graphMode={options.graphMode as never}
          justifyMode={options.justifyMode as never}
          textMode={options.textMode as never}
          disableWideLayout={!options.wideLayout}
          alignmentFactors={cell.alignmentFactors as never}
          text={options.text}
          theme={theme}
          width={cell.width}
          height={cell.height}
        />
      )}
    />
  );
}
