// Time series: Grafana's own chart, with the marks of annotations across it.
import { dateTime, type GrafanaTheme2 } from '@grafana/data';
import { type OptionsWithLegend, LegendDisplayMode } from '@grafana/schema';
import { TimeSeries, type UPlotConfigBuilder } from '@grafana/ui';
import type { Mark } from './annotations';
import type { Drawing } from './panel';

// What Grafana's panel adds to every field (its plug-in's defaults).
const DRAWN = { drawStyle: 'line', lineWidth: 1, fillOpacity: 0, showPoints: 'auto', pointSize: 5, lineInterpolation: 'linear' };

export function Lines({ panel, frames, marks, span, theme, width, height }: Drawing) {
  let series = 0;
  for (const field of frames.flatMap((frame) => frame.fields.slice(1))) {
    field.config = { ...field.config, custom: { ...DRAWN, ...field.config.custom } };
    field.state = { ...field.state, seriesIndex: series++ };
  }
  const [from, to] = [dateTime(span.from * 1000), dateTime(span.to * 1000)];
  const { legend } = panel.options as unknown as OptionsWithLegend;
  const hidden = { displayMode: LegendDisplayMode.Hidden, placement: 'bottom' as const, calcs: [], showLegend: false };
  return (
    <TimeSeries
      width={width}
      height={height}
      frames={frames}
      timeZone="utc"
      timeRange={{ from, to, raw: { from, to } }}
      legend={legend?.showLegend === false ? hidden : (legend ?? hidden)}
      options={{ theme: theme.name }}
    >
      {(builder: UPlotConfigBuilder) => draw(marks, theme, builder)}
    </TimeSeries>
  );
}

function draw(marks: Mark[], theme: GrafanaTheme2, builder: UPlotConfigBuilder) {
  builder.addHook('draw', (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.lineWidth = devicePixelRatio;
    for (const mark of marks) {
      const x = plot.valToPos(mark.from * 1000, 'x', true);
      ctx.strokeStyle = theme.visualization.getColorByName(mark.colour);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  });
  return null;
}
