// The page: a dashboard's panels where its grid puts them. The address says which, of which Prometheus, and from when to when.
import { EventBusSrv, ThemeContext, createTheme } from '@grafana/data';
import type { Dashboard, Panel, RowPanel } from '@grafana/schema';
import { GlobalStyles, PanelContextProvider } from '@grafana/ui';
import { createRoot } from 'react-dom/client';
import { marks } from './annotations';
import { type Asked, PanelPicture, ask } from './panel';
import { type Span, askThis } from './prometheus';
import { resolve } from './variables';

// Grafana's grid: https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/#panel-size-and-position
const COLUMNS = 24;
const ROW = 30;
const GAP = 8;

const asked = new URLSearchParams(location.search);
const theme = createTheme({ colors: { mode: asked.get('theme') === 'light' ? 'light' : 'dark' } });
const wide = document.documentElement.clientWidth - 2 * GAP;

function place({ gridPos }: Panel | RowPanel) {
  const { x, y, w, h } = gridPos!;
  const column = (wide + GAP) / COLUMNS;
  return { left: GAP + x * column, top: y * (ROW + GAP), width: w * column - GAP, height: h * (ROW + GAP) - GAP };
}

async function draw() {
  const number = (name: string) => Number(asked.get(name));
  const span: Span = { from: number('from'), to: number('to'), step: number('step'), scrape: number('scrape') };
  askThis(asked.get('prometheus')!);
  const dashboard: Dashboard = await (await fetch(`/dashboards/${asked.get('dashboard')}.json`)).json();
  const values = await resolve(dashboard, asked, span);
  const all = (dashboard.panels ?? []) as (Panel | RowPanel)[];
  const panels = all.filter((panel): panel is Panel => panel.type !== 'row');
  const answered = await Promise.all(panels.map((panel) => ask(panel, values, span, theme)));
  const across = await marks(dashboard, values, span);
  const bottom = Math.max(...all.map((panel) => place(panel).top + place(panel).height));
  document.body.style.background = theme.colors.background.canvas;
  document.body.style.color = theme.colors.text.primary;
  createRoot(document.getElementById('root')!).render(
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <PanelContextProvider value={{ eventsScope: 'global', eventBus: new EventBusSrv() }}>
        <div style={{ position: 'relative', height: bottom + GAP }}>
          {all
            .filter((panel) => panel.type === 'row')
            .map((row) => (
              <h2 key={row.id} style={{ position: 'absolute', ...place(row as RowPanel) }}>
                {row.title}
              </h2>
            ))}
          {answered.map((of: Asked) => (
            <div
              key={of.panel.id}
              data-panel={`${of.panel.id} ${of.panel.title}`}
              style={{ position: 'absolute', ...place(of.panel) }}
            >
              <PanelPicture {...of} marks={across} span={span} theme={theme} {...place(of.panel)} />
            </div>
          ))}
        </div>
      </PanelContextProvider>
    </ThemeContext.Provider>,
  );
  await settled();
  tell({ drawn: { height: bottom + GAP, seen } });
}

/** Fonts are there, and what was laid out in one frame was drawn in the next ones. */
async function settled() {
  const frame = () => new Promise(requestAnimationFrame);
  await frame();
  await document.fonts.ready;
  for (let i = 0; i < 10; i++) {
    await frame();
  }
}

/** What stands in the panels: words instead of a picture, or nothing at all. */
function seen() {
  const all = [...document.querySelectorAll<HTMLElement>('[data-panel]')];
  const words = (kind: string) =>
    Object.fromEntries(
      all.flatMap((panel) => [...panel.querySelectorAll<HTMLElement>(kind)].map((said) => [panel.dataset.panel, said.innerText])),
    );
  const picture = 'canvas, svg rect, [role=grid], [role=table], .wrong, .empty';
  const blank = all
    .filter((panel) => !panel.querySelector(picture) && !/\d/.test(body(panel)))
    .map((panel) => panel.dataset.panel);
  return { wrong: words('.wrong'), empty: words('.empty'), blank };
}

function body(panel: HTMLElement) {
  return panel.innerText.replace(panel.querySelector('h2, h6')?.textContent ?? '', '');
}

function tell(what: object) {
  Object.assign(window, what);
}

draw().catch((error) => {
  tell({ failed: String(error?.stack ?? error) });
});
