// Table: Grafana's own.
import type { Options } from '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen';
import { TableNG } from '@grafana/ui/unstable';
import type { Drawing } from './panel';

export function Table({ panel, frames, width, height }: Drawing) {
  const options = panel.options as unknown as Options;
  return (
    <TableNG
      data={frames[0]}
      width={width}
      height={height}
      noHeader={!options.showHeader}
      initialSortBy={options.sortBy as never}
      enableVirtualization={false}
    />
  );
}
