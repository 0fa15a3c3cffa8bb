// Heatmap of how many series have which value. Grafana's own is part of its server and on no registry: this one counts the same cells.
import { type DataFrame, getValueFormat, formattedValueToString } from '@grafana/data';
import type { Options } from '@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen';
import * as schemes from 'd3-scale-chromatic';
import { type Frame, TimeAxis } from './axis';
import type { Drawing } from './panel';

const COLUMNS = 60; // about as many as Grafana cuts a panel into

export function Heatmap({ panel, frames, span, theme, width, height }: Drawing) {
  const { calculation, color, yAxis } = panel.options as unknown as Options;
  const size = Number(calculation?.yBuckets?.value ?? 1);
  const wide = Math.max(span.step, (span.to - span.from) / COLUMNS);
  const cells = count(frames, span.from, wide, size);
  const rows = [...cells.keys()].map((cell) => Number(cell.split(' ')[1]));
  const lowest = Math.floor((yAxis?.min ?? Math.min(...rows) * size) / size);
  const highest = Math.ceil((yAxis?.max ?? (Math.max(...rows) + 1) * size) / size);
  const format = getValueFormat(yAxis?.unit);
  const text = (value: number) => formattedValueToString(format(value, size < 1 ? 1 : 0));
  const left = 14 + 7 * text(highest * size).length;
  const frame: Frame = { left, top: 6, width: width - left - 8, height: height - 30, span };
  const tall = frame.height / (highest - lowest);
  const most = Math.max(...cells.values());
  const every = Math.ceil(22 / tall);
  const ticks = Array.from({ length: Math.floor((highest - lowest) / every) + 1 }, (_, i) => lowest + i * every);
  const bottom = frame.top + frame.height;
  return (
    <svg width={width} height={height} fontSize={12} fontFamily={theme.typography.fontFamily}>
      {ticks.map((row) => (
        <text
          key={row}
          x={left - 8}
          y={bottom - (row - lowest) * tall}
          textAnchor="end"
          dominantBaseline="central"
          fill={theme.colors.text.primary}
        >
          {text(row * size)}
        </text>
      ))}
      {[...cells].map(([cell, counted]) => {
        const [column, row] = cell.split(' ').map(Number);
        const x = left + ((column * wide) / (span.to - span.from)) * frame.width;
        const w = (wide / (span.to - span.from)) * frame.width;
        const fill = shade(counted / most, color?.scheme ?? 'Oranges', theme.isDark);
        return (
          <rect
            key={cell}
            x={x}
            y={bottom - (row + 1 - lowest) * tall}
            width={Math.max(w - 1, 1)}
            height={Math.max(tall - 1, 1)}
            fill={fill}
          />
        );
      })}
      <TimeAxis frame={frame} theme={theme} />
    </svg>
  );
}

/** "column row" to how many points fall there. */
function count(frames: DataFrame[], from: number, wide: number, size: number): Map<string, number> {
  const cells = new Map<string, number>();
  for (const {
    fields: [time, value],
  } of frames) {
    value.values.forEach((raw, i) => {
      if (raw !== null && Number.isFinite(raw)) {
        const cell = `${Math.floor((time.values[i] / 1000 - from) / wide)} ${Math.floor(raw / size)}`;
        cells.set(cell, (cells.get(cell) ?? 0) + 1);
      }
    });
  }
  return cells;
}

/** Grafana turns a scheme of one hue around in the dark, so that few is dark and many is bright. */
function shade(share: number, scheme: string, dark: boolean): string {
  const interpolate =
    (schemes as unknown as Record<string, (at: number) => string>)[`interpolate${scheme}`] ?? schemes.interpolateOranges;
  return interpolate(dark ? 1 - share : share);
}
