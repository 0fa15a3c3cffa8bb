// Answers of Prometheus as the data frames that Grafana's own data source makes of them.
import { type DataFrame, type Labels, FieldType, createDataFrame } from '@grafana/data';

/** A stretch of time in seconds: its ends, the distance of points, and that of the scrapes behind them. */
export interface Span {
  from: number;
  to: number;
  step: number;
  scrape: number;
}

export interface Query {
  refId: string;
  expr: string;
  legend?: string;
  instant: boolean;
  table: boolean;
}

interface Series {
  metric: Labels;
  value?: [number, string];
  values?: [number, string][];
}

let server = '';

/** Which server all questions go to. */
export function askThis(address: string): void {
  server = address;
}

async function ask<T>(path: string, query: Record<string, string>): Promise<T> {
  const answer = await fetch(`${server}/api/v1/${path}`, { method: 'POST', body: new URLSearchParams(query) });
  const said = await answer.json();
  if (said.status !== 'success') {
    throw new Error(`${said.error} (${query.query ?? query['match[]']})`);
  }
  return said.data;
}

/** Values of a label among the series that match. */
export async function labelValues(series: string, label: string, span: Span): Promise<string[]> {
  const found = await ask<Labels[]>('series', { 'match[]': series, start: String(span.from), end: String(span.to) });
  const values = new Set(found.map((labels) => labels[label] ?? ''));
  return [...values].filter(Boolean).sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
}

/** Frames of one query: one per series, or one with a column per label. `alone`: the panel has no other query. */
export async function frames(query: Query, span: Span, alone: boolean): Promise<DataFrame[]> {
  const time: Record<string, string> = query.instant
    ? { time: String(span.to) }
    : { start: String(span.from), end: String(span.to), step: String(span.step) };
  const path = query.instant ? 'query' : 'query_range';
  const { result } = await ask<{ result: Series[] }>(path, { query: query.expr, ...time });
  if (query.table) {
    return [table(query, result, alone)];
  }
  return result.map((series) => overTime(query, series, span));
}

function overTime(query: Query, series: Series, span: Span): DataFrame {
  const at = new Map((series.values ?? [series.value!]).map(([time, value]) => [time, Number(value)]));
  // A point that Prometheus leaves out is a gap, not a line across it.
  const times = query.instant ? [...at.keys()] : steps(span);
  const name = query.legend ? legend(query.legend, series.metric) : plainName(series.metric);
  return createDataFrame({
    refId: query.refId,
    name,
    fields: [
      { name: 'Time', type: FieldType.time, values: times.map((time) => time * 1000), config: { interval: span.step * 1000 } },
      {
        name: 'Value',
        type: FieldType.number,
        labels: series.metric,
        values: times.map((time) => at.get(time) ?? null),
        config: { displayNameFromDS: name },
      },
    ],
  });
}

function steps(span: Span): number[] {
  const count = Math.floor((span.to - span.from) / span.step) + 1;
  return Array.from({ length: count }, (_, i) => span.from + i * span.step);
}

function table(query: Query, result: Series[], alone: boolean): DataFrame {
  const labels = [...new Set(result.flatMap((series) => Object.keys(series.metric)))].sort();
  const text = (label: string) => result.map((series) => series.metric[label] ?? '');
  return createDataFrame({
    refId: query.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: result.map((series) => series.value![0] * 1000) },
      ...labels.map((label) => ({ name: label, type: FieldType.string, values: text(label), config: { filterable: true } })),
      {
        name: alone ? 'Value' : `Value #${query.refId}`,
        type: FieldType.number,
        values: result.map((series) => Number(series.value![1])),
      },
    ],
  });
}

function legend(format: string, labels: Labels): string {
  return format.replace(/\{\{\s*(.+?)\s*\}\}/g, (_, label) => labels[label] ?? '');
}

function plainName({ __name__, ...labels }: Labels): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  return `${__name__ ?? ''}{${pairs.join(', ')}}`;
}
