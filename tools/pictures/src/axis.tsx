// The axis of time below what we draw ourselves.
import { type GrafanaTheme2, dateTimeFormat } from '@grafana/data';
import type { Span } from './prometheus';

/** Where the picture lies in its panel, pixels, and what time it spans. */
export interface Frame {
  left: number;
  top: number;
  width: number;
  height: number;
  span: Span;
}

const DISTANCES = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

export function TimeAxis({ frame, theme }: { frame: Frame; theme: GrafanaTheme2 }) {
  const { from, to } = frame.span;
  const distance = DISTANCES.find((seconds) => (frame.width * seconds) / (to - from) >= 70) ?? 86400;
  const first = Math.ceil(from / distance) * distance;
  const ticks = Array.from({ length: Math.floor((to - first) / distance) + 1 }, (_, i) => first + i * distance);
  return (
    <g transform={`translate(${frame.left} ${frame.top + frame.height})`} fill={theme.colors.text.primary}>
      {ticks.map((at) => (
        <text key={at} x={((at - from) / (to - from)) * frame.width} y={16} textAnchor="middle">
          {dateTimeFormat(at * 1000, { format: distance < 86400 ? 'HH:mm' : 'MM/DD', timeZone: 'utc' })}
        </text>
      ))}
    </g>
  );
}
