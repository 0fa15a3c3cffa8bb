// One panel: asked, prepared, drawn in Grafana's frame. What goes wrong is written where the picture would be.
import type { DataFrame, GrafanaTheme2 } from '@grafana/data';
import type { Panel } from '@grafana/schema';
import { ErrorBoundary, PanelChrome } from '@grafana/ui';
import type { FunctionComponent } from 'react';
import type { Mark } from './annotations';
import { prepare } from './fields';
import { Heatmap } from './heatmap';
import { Lines } from './lines';
import { type Span, frames as answers } from './prometheus';
import { Stat } from './stat';
import { Table } from './table';
import { Timeline } from './timeline';
import { type Values, fill } from './variables';

export interface Drawing {
  panel: Panel;
  frames: DataFrame[];
  marks: Mark[];
  span: Span;
  theme: GrafanaTheme2;
  width: number;
  height: number;
}

export interface Asked {
  panel: Panel;
  frames: DataFrame[];
  error?: string;
}

const KINDS: Record<string, FunctionComponent<Drawing> | undefined> = {
  stat: Stat,
  timeseries: Lines,
  statetimeline: Timeline,
  'state-timeline': Timeline,
  heatmap: Heatmap,
  table: Table,
};

interface Target {
  refId: string;
  expr: string;
  legendFormat?: string;
  instant?: boolean;
  format?: string;
}

/** A panel with its answers. */
export async function ask(panel: Panel, values: Values, span: Span, theme: GrafanaTheme2): Promise<Asked> {
  try {
    const targets = (panel.targets ?? []) as unknown as Target[];
    const own = { ...span, from: panel.timeFrom ? span.to - seconds(panel.timeFrom) : span.from };
    const asked = targets.map(({ refId, expr, legendFormat, instant, format }) =>
      answers(
        { refId, expr: fill(expr, values), legend: legendFormat, instant: Boolean(instant), table: format === 'table' },
        own,
        targets.length === 1,
      ),
    );
    return { panel, frames: await prepare(panel, (await Promise.all(asked)).flat(), theme) };
  } catch (error) {
    return { panel, frames: [], error: String(error) };
  }
}

/** Of a panel's own reach back: "1m", "2h". */
function seconds(reach: string): number {
  const [, count, unit] = /^(\d+)([smhd])$/.exec(reach)!;
  return Number(count) * { s: 1, m: 60, h: 3600, d: 86400 }[unit]!;
}

export function PanelPicture({ panel, frames, error, width, height, ...rest }: Asked & Omit<Drawing, 'frames'>) {
  return (
    <PanelChrome title={panel.title} description={panel.description} width={width} height={height}>
      {(w: number, h: number) => (
        <ErrorBoundary>
          {({ error: thrown }) => {
            const Kind = KINDS[panel.type];
            const wrong = error ?? thrown?.message ?? (Kind ? undefined : `no picture for ${panel.type}`);
            if (wrong || !Kind) {
              return <div className="wrong">{wrong}</div>;
            }
            if (!frames.some((frame) => frame.length)) {
              return <div className="empty">{panel.fieldConfig?.defaults?.noValue ?? 'No data'}</div>;
            }
            return <Kind panel={panel} frames={frames} width={w} height={h} {...rest} />;
          }}
        </ErrorBoundary>
      )}
    </PanelChrome>
  );
}
