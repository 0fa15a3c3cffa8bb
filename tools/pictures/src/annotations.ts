// Marks that a dashboard puts across its panels: when each began.
import type { DataFrame } from '@grafana/data';
import type { AnnotationQuery, Dashboard } from '@grafana/schema';
import { type Span, frames } from './prometheus';
import { type Values, fill } from './variables';

export interface Mark {
  from: number;
  colour: string;
}

export async function marks(dashboard: Dashboard, values: Values, span: Span): Promise<Mark[]> {
  const asked = (dashboard.annotations?.list ?? []).filter((query) => query.enable && (query as { expr?: string }).expr);
  return (await Promise.all(asked.map((query) => begun(query, values, span)))).flat();
}

async function begun(query: AnnotationQuery, values: Values, span: Span): Promise<Mark[]> {
  const expr = fill((query as { expr?: string }).expr!, values);
  const found = await frames({ refId: 'Anno', expr, instant: false, table: false }, span, true);
  return found.flatMap((frame) => onsets(frame).map((from) => ({ from, colour: query.iconColor })));
}

function onsets({ fields: [time, value] }: DataFrame): number[] {
  return time.values.filter((_, i) => value.values[i] && !value.values[i - 1]).map((milliseconds) => milliseconds / 1000);
}
