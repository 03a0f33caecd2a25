/** Panels as Grafana 10 reads them. */

/** A panel as Grafana reads it, but for its id and where it lies. */
export interface Panel {
  readonly size: readonly [width: number, height: number];
  readonly [option: string]: unknown;
}

/** From which value on there is a colour; null stands for the lowest. */
type Steps = Readonly<Record<string, number | null>>;

export const NONE_IS_GOOD = { green: null, orange: 1 };
export const ONE_IS_GOOD = { green: null, orange: 2 };
export const ALL_ARE_GOOD = { red: null, orange: 0.9, green: 1 };
export const FAST = { green: null, orange: 1, red: 5 };
export const IN_TIME = { green: null, orange: 180, red: 600 };
export const NEUTRAL = { blue: null };

export const SECONDS = { unit: 's' };
export const AGE = { unit: 's', decimals: 0 };
export const SHARE = { unit: 'percentunit' };

/** How a graph is drawn. What changes at once is drawn in steps, and is a whole number. */
export const LINES = { lineInterpolation: 'linear' };
export const POINTS = { ...LINES, showPoints: 'always', pointSize: 6 };
export const STACKED_LINES = { ...LINES, fillOpacity: 40, stacking: { group: 'A', mode: 'normal' } };
export const STEPS = { lineInterpolation: 'stepAfter' };
export const STACKED_STEPS = { ...STACKED_LINES, ...STEPS };

export const DATASOURCE = { type: 'prometheus', uid: `\${datasource}` };

/** Grafana's own options, as it exports them. */
const STAT = {
  colorMode: 'value',
  graphMode: 'none',
  justifyMode: 'auto',
  orientation: 'auto',
  reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
  wideLayout: true,
};
const SERIES = {
  legend: { calcs: ['lastNotNull', 'max'], displayMode: 'table', placement: 'bottom', showLegend: true },
  tooltip: { mode: 'multi', sort: 'desc' },
};
const BARS = {
  displayMode: 'basic',
  minVizHeight: 16,
  minVizWidth: 8,
  namePlacement: 'auto',
  orientation: 'horizontal',
  reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
  showUnfilled: true,
  sizing: 'auto',
  valueMode: 'color',
};
const TABLE = {
  cellHeight: 'sm',
  footer: { countRows: false, fields: '', reducer: ['sum'], show: false },
  showHeader: true,
};
const HEATMAP = {
  calculate: false,
  cellGap: 1,
  cellValues: { decimals: 0, unit: 'short' },
  color: {
    exponent: 0.5,
    fill: 'dark-orange',
    mode: 'scheme',
    reverse: false,
    scale: 'exponential',
    scheme: 'Oranges',
    steps: 64,
  },
  exemplars: { color: 'rgba(255,0,255,0.7)' },
  filterValues: { le: 1e-9 },
  legend: { show: true },
  rowsFrame: { layout: 'auto' },
  tooltip: { mode: 'single', showColorScale: false, yHistogram: true },
  yAxis: { axisPlacement: 'left', reverse: false, unit: 's' },
};
/** Lays each panel to the right of the one before, or in a new line if that is full. */
export function layOut(panels: readonly Panel[], top: number) {
  let [x, y, bottom] = [0, top, top];
  const placed = panels.map(({ size: [w, h], ...panel }) => {
    if (x + w > 24) [x, y] = [0, bottom];
    const gridPos = { h, w, x, y };
    x += w;
    bottom = y + h;
    return { ...panel, gridPos };
  });
  return { placed, bottom };
}

/** One query without a legend, or several by their legends. */
type Queries = string | Readonly<Record<string, string>> | readonly string[];

function panel(type: string, size: Panel['size'], title: string, description: string) {
  return { type, size, title, description, datasource: DATASOURCE };
}

function targets(queries: Queries, how: { readonly instant: boolean; readonly format?: string }) {
  const listed = typeof queries === 'string' ? [queries] : queries;
  return Object.entries(listed).map(([legend, expr], index) => ({
    ...{ datasource: DATASOURCE, editorMode: 'code', refId: 'ABCDEFG'[index], expr },
    ...{ legendFormat: Array.isArray(listed) ? '' : legend, ...how, range: !how.instant },
  }));
}

function thresholds(steps: Steps) {
  return { mode: 'absolute', steps: Object.entries(steps).map(([color, value]) => ({ color, value })) };
}

/** The last value, or several. */
export function stat(
  size: Panel['size'],
  title: string,
  description: string,
  queries: Queries,
  steps: Steps,
  unit: object = { unit: 'short' },
): Panel {
  const defaults = { color: { mode: 'thresholds' }, mappings: [], thresholds: thresholds(steps), ...unit };
  return {
    ...panel('stat', size, title, description),
    fieldConfig: { defaults, overrides: [] },
    options: { ...STAT, textMode: typeof queries === 'string' ? 'value' : 'value_and_name' },
    targets: targets(queries, { instant: true }),
  };
}

/** Values over time. */
export function series(
  size: Panel['size'],
  title: string,
  description: string,
  queries: Queries,
  look: { readonly lineInterpolation: string },
  unit = 'short',
  colours: Readonly<Record<string, string>> = {},
): Panel {
  const custom = {
    ...{ drawStyle: 'line', fillOpacity: 10, lineWidth: 1, showPoints: 'auto', spanNulls: false },
    ...{ stacking: { group: 'A', mode: 'none' }, thresholdsStyle: { mode: 'off' }, ...look },
  };
  const defaults = {
    ...{ color: { mode: 'palette-classic' }, custom, min: 0, thresholds: thresholds({ green: null }), unit },
    ...(look.lineInterpolation === 'stepAfter' && { decimals: 0 }),
  };
  const overrides = Object.entries(colours).map(([name, fixedColor]) =>
    override(name, { color: { fixedColor, mode: 'fixed' } }),
  );
  return {
    ...panel('timeseries', size, title, description),
    ...{ fieldConfig: { defaults, overrides }, options: SERIES },
    targets: targets(queries, { instant: false }),
  };
}

/** Other options for one column or series. */
function override(name: string, properties: object) {
  return {
    matcher: { id: 'byName', options: name },
    properties: Object.entries(properties).map(([id, value]) => ({ id, value })),
  };
}

export function bars(size: Panel['size'], title: string, description: string, queries: Queries): Panel {
  const color = { mode: 'palette-classic' };
  const steps = thresholds({ green: null });
  const defaults = { color, decimals: 0, mappings: [], min: 0, thresholds: steps, unit: 'short' };
  return {
    ...panel('bargauge', size, title, description),
    ...{ fieldConfig: { defaults, overrides: [] }, options: BARS },
    targets: targets(queries, { instant: true }),
  };
}

/** A row for each answer, which several queries can share. `columns` are the titles by label or value. */
export function table(
  size: Panel['size'],
  title: string,
  description: string,
  queries: readonly string[],
  columns: Readonly<Record<string, string>>,
  sortedBy: string,
): Panel {
  const custom = { align: 'auto', cellOptions: { type: 'auto' }, filterable: true, inspect: false };
  const color = { mode: 'thresholds' };
  const steps = thresholds({ green: null });
  const defaults = { color, custom, mappings: [], noValue: 'none', thresholds: steps, unit: 'short' };
  const overrides = Object.entries(COLUMNS).flatMap(([name, properties]) =>
    Object.values(columns).includes(name) ? [override(name, properties)] : [],
  );
  const unnamed = queries
    .map((_, index) => `Value #${'ABCDEFG'[index]}`)
    .filter((name) => !(name in columns));
  const organize = {
    excludeByName: Object.fromEntries(
      ['Time', ...(queries.length > 1 ? unnamed : [])].map((name) => [name, true]),
    ),
    indexByName: Object.fromEntries(Object.keys(columns).map((name, index) => [name, index])),
    renameByName: columns,
  };
  return {
    ...panel('table', size, title, description),
    ...{
      fieldConfig: { defaults, overrides },
      options: { ...TABLE, sortBy: [{ desc: true, displayName: sortedBy }] },
    },
    targets: targets(queries, { instant: true, format: 'table' }),
    transformations: [
      ...(queries.length > 1 ? [{ id: 'merge', options: {} }] : []),
      { id: 'organize', options: organize },
    ],
  };
}

function coloured(steps: Steps) {
  return { thresholds: thresholds(steps), 'custom.cellOptions': { type: 'color-text' } };
}

export function heatmap(size: Panel['size'], title: string, description: string, query: string): Panel {
  const custom = {
    hideFrom: { legend: false, tooltip: false, viz: false },
    scaleDistribution: { type: 'linear' },
  };
  return {
    ...panel('heatmap', size, title, description),
    ...{ fieldConfig: { defaults: { custom }, overrides: [] }, options: HEATMAP },
    targets: targets({ '{{le}}': query }, { instant: false, format: 'heatmap' }),
  };
}
const COLUMNS = {
  'Last sync': { unit: 's', ...coloured(IN_TIME) },
  'Last change': { unit: 's' },
  'Drift repairs': coloured(NONE_IS_GOOD),
  'Others decide': coloured(NONE_IS_GOOD),
};
