// A dashboard's variables: their values as Grafana would find them, and their places in a query or a link.
import type { Dashboard, VariableModel } from '@grafana/schema';
import { type Span, labelValues } from './prometheus';

export type Values = Map<string, string>;

/** Values of all variables, in order: what the address asks for, else all of them, else the first there is. */
export async function resolve(dashboard: Dashboard, asked: URLSearchParams, span: Span): Promise<Values> {
  const values: Values = new Map(builtIn(span));
  for (const variable of dashboard.templating?.list ?? []) {
    values.set(variable.name, asked.get(`var-${variable.name}`) ?? (await chosen(variable, values, span)));
  }
  return values;
}

async function chosen(variable: VariableModel, values: Values, span: Span): Promise<string> {
  if (variable.type !== 'query') {
    return String(variable.current?.value ?? '');
  }
  if (variable.includeAll && variable.allValue) {
    return variable.allValue;
  }
  const asked = /^label_values\((.+), *(\w+)\)$/s.exec(text(variable.query));
  if (!asked) {
    throw new Error(`variable ${variable.name}: only label_values(series, label) is understood, not ${text(variable.query)}`);
  }
  const found = await labelValues(fill(asked[1], values), asked[2], span);
  return variable.includeAll ? found.join('|') : (found[0] ?? '');
}

function text(query: unknown): string {
  return typeof query === 'string' ? query : String((query as { query?: unknown })?.query ?? '');
}

/** What Grafana's data source adds: https://grafana.com/docs/grafana/latest/dashboards/variables/add-template-variables/#global-variables */
function builtIn(span: Span): [string, string][] {
  const range = Math.round(span.to - span.from);
  return [
    ['__interval', `${span.step}s`],
    ['__interval_ms', String(1000 * span.step)],
    ['__rate_interval', `${Math.max(span.step + span.scrape, 4 * span.scrape)}s`],
    ['__range', `${range}s`],
    ['__range_s', String(range)],
  ];
}

/** A text with its variables, `$name` or `${name:format}`, replaced; what has no value stays as it stands. */
export function fill(template: string, values: Values): string {
  return template.replace(/\$(\w+)|\$\{(\w+)(?::\w+)?\}/g, (whole, plain, braced) => values.get(plain ?? braced) ?? whole);
}
