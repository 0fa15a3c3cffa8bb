// State timeline. Grafana's own is part of its server and on no registry: this one draws the same fields in the same colours.
import { type DataFrame, type DisplayValue, getFieldDisplayName } from '@grafana/data';
import type {
  FieldConfig,
  Options,
} from '@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen';
import { VizLayout, VizLegend, measureText } from '@grafana/ui';
import { LegendDisplayMode } from '@grafana/schema';
import { type Frame, TimeAxis } from './axis';
import type { Drawing } from './panel';

interface Stretch {
  from: number;
  to: number;
  state: DisplayValue;
}

export function Timeline({ panel, frames, span, theme, width, height }: Drawing) {
  const rows = frames.map((frame) => ({
    name: getFieldDisplayName(frame.fields[1], frame, frames),
    stretches: stretches(frame, span.step),
  }));
  const states = new Map(rows.flatMap((row) => row.stretches.map(({ state }) => [state.text, state])));
  const legend = [...states.values()].sort((a, b) => a.numeric - b.numeric);
  const items = legend.map((state) => ({ label: state.text, color: state.color, yAxis: 1 }));
  const { rowHeight = 0.9 } = panel.options as unknown as Options;
  const { fillOpacity = 70 } = (panel.fieldConfig?.defaults?.custom ?? {}) as FieldConfig;
  return (
    <VizLayout
      width={width}
      height={height}
      legend={
        <VizLayout.Legend placement="bottom">
          <VizLegend placement="bottom" items={items} displayMode={LegendDisplayMode.List} />
        </VizLayout.Legend>
      }
    >
      {(w: number, h: number) => {
        const left = 12 + Math.max(...rows.map((row) => measureText(row.name, 12).width), 0);
        const frame: Frame = { left, top: 2, width: w - left - 8, height: h - 24, span };
        const tall = frame.height / Math.max(rows.length, 1);
        return (
          <svg width={w} height={h} fontSize={12} fontFamily={theme.typography.fontFamily}>
            {rows.map((row, i) => (
              <g key={row.name} transform={`translate(0 ${frame.top + i * tall})`}>
                <text x={left - 8} y={tall / 2} textAnchor="end" dominantBaseline="central" fill={theme.colors.text.primary}>
                  {tall >= 11 || i % 2 === 0 ? row.name : ''}
                </text>
                {row.stretches.map(({ from, to, state }) => (
                  <rect
                    key={from}
                    x={left + ((from - span.from) / (span.to - span.from)) * frame.width}
                    width={((to - from) / (span.to - span.from)) * frame.width}
                    y={((1 - rowHeight) / 2) * tall}
                    height={rowHeight * tall}
                    fill={state.color}
                    fillOpacity={fillOpacity / 100}
                  />
                ))}
              </g>
            ))}
            <TimeAxis frame={frame} theme={theme} />
          </svg>
        );
      }}
    </VizLayout>
  );
}

/** How long each state held, seconds; a missing point ends it. */
function stretches({ fields: [time, value] }: DataFrame, step: number): Stretch[] {
  const found: Stretch[] = [];
  value.values.forEach((raw, i) => {
    const at = time.values[i] / 1000;
    if (raw === null || raw === undefined) {
      return;
    }
    const state = value.display!(raw);
    const last = found.at(-1);
    if (last && last.to === at && last.state.text === state.text) {
      last.to = at + step;
    } else {
      found.push({ from: at, to: at + step, state });
    }
  });
  return found;
}
