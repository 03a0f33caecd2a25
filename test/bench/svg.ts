/** Line charts as SVG, one below the other over the same x axis; readable on light and on dark ground. */

export interface Series {
  readonly name: string;
  readonly points: readonly Point[];
}

export type Point = readonly [x: number, y: number];

export interface Panel {
  readonly title: string;
  /** In the order of their colours; at most four. */
  readonly series: readonly Series[];
}

const WIDTH = 960;
const PLOT = { left: 70, right: 36, top: 46, height: 180 } as const;
const PANEL_HEIGHT = PLOT.top + PLOT.height + 34;
const HEAD_HEIGHT = 40;
const FOOT_HEIGHT = 30;

/** Distinct also for those who see no difference between red and green. */
const COLOURS = [
  { light: '#0b62c4', dark: '#6cb2ff' },
  { light: '#b54708', dark: '#ffb066' },
  { light: '#0f7b53', dark: '#5fd3a6' },
  { light: '#7a3fb0', dark: '#cda2ff' },
];

/** @param xLabel what is counted along the x axis */
export function chart(title: string, xLabel: string, panels: readonly Panel[]): string {
  const height = HEAD_HEIGHT + panels.length * PANEL_HEIGHT + FOOT_HEIGHT;
  const xMost = Math.max(...panels.flatMap(({ series }) => series.flatMap(xsOf)));
  const body = panels.map((panel, index) => drawPanel(panel, HEAD_HEIGHT + index * PANEL_HEIGHT, xMost));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-label="${escapeXml(title)}">`,
    `<style>${style()}</style>`,
    `<rect class="ground" width="${WIDTH}" height="${height}"/>`,
    `<text class="title" x="${PLOT.left}" y="26">${escapeXml(title)}</text>`,
    ...body,
    `<text x="${(PLOT.left + WIDTH - PLOT.right) / 2}" y="${height - 12}" text-anchor="middle">${escapeXml(xLabel)}</text>`,
    '</svg>',
    '',
  ].join('\n');
}

function style(): string {
  const colours = (ground: 'light' | 'dark') =>
    COLOURS.map((colour, index) => `.s${index}{--own:${colour[ground]}}`).join('');
  return [
    'svg{--ground:#fff;--ink:#1f2328;--line:#d0d7de}',
    colours('light'),
    `@media(prefers-color-scheme:dark){svg{--ground:#0d1117;--ink:#e6edf3;--line:#30363d}${colours('dark')}}`,
    'text{font:13px system-ui,sans-serif;fill:var(--ink)}.title{font-size:16px;font-weight:600}.head{font-weight:600}',
    '.ground{fill:var(--ground)}.grid{stroke:var(--line)}.name{fill:var(--own)}',
    '.curve{fill:none;stroke:var(--own);stroke-width:1.6;stroke-linejoin:round}',
  ].join('');
}

function drawPanel({ title, series }: Panel, top: number, xMost: number): string {
  const yTicks = ticks(Math.max(...series.flatMap(({ points }) => points.map(([, y]) => y))));
  const yMost = yTicks.at(-1) ?? 1;
  const base = top + PLOT.top + PLOT.height;
  const x = (value: number) => PLOT.left + (value / xMost) * (WIDTH - PLOT.left - PLOT.right);
  const y = (value: number) => base - (value / yMost) * PLOT.height;
  return [
    `<text class="head" x="${PLOT.left}" y="${top + 18}">${escapeXml(title)}</text>`,
    ...legend(series, top + 36),
    ...yTicks.map(
      (tick) =>
        `<line class="grid" x1="${PLOT.left}" x2="${WIDTH - PLOT.right}" y1="${round(y(tick))}" y2="${round(y(tick))}"/><text x="${PLOT.left - 8}" y="${round(y(tick) + 4)}" text-anchor="end">${label(tick)}</text>`,
    ),
    ...ticks(xMost)
      .filter((tick) => tick <= xMost)
      .map(
        (tick) => `<text x="${round(x(tick))}" y="${base + 18}" text-anchor="middle">${label(tick)}</text>`,
      ),
    ...series.map(({ points }, index) => {
      const line = points.map(([a, b]) => `${round(x(a))},${round(y(b))}`).join(' ');
      return `<polyline class="curve s${index}" points="${line}"/>`;
    }),
  ].join('\n');
}

/** The names in the colours of their curves, each with how it begins and ends. */
function legend(series: readonly Series[], y: number): readonly string[] {
  const wide = (WIDTH - PLOT.left - PLOT.right) / Math.max(series.length, 3);
  return series.map(({ name, points }, index) => {
    const [first, last] = [points[0]?.[1] ?? Number.NaN, points.at(-1)?.[1] ?? Number.NaN];
    const text = `${name}: ${label(first)} → ${label(last)}`;
    return `<text class="name s${index}" x="${round(PLOT.left + index * wide)}" y="${y}">${escapeXml(text)}</text>`;
  });
}

function xsOf({ points }: Series): readonly number[] {
  return points.map(([x]) => x);
}

/** Round numbers from 0 on, about five, the last one not below the most. */
export function ticks(most: number): readonly number[] {
  const rough = most > 0 ? most / 4 : 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 2.5, 5].find((factor) => factor * power >= rough) ?? 10);
  const steps = Math.max(1, Math.ceil(most / step - 1e-9));
  return Array.from({ length: steps + 1 }, (_, index) => index * step);
}

function label(value: number): string {
  return value.toLocaleString('en', { maximumFractionDigits: Math.abs(value) < 100 ? 1 : 0 });
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
