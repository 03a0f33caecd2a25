const COLUMNS = 104;
const CHARACTER = 7.83; // the width of one at 13 px: fonts of terminals are between 0.6 and 0.61 of their size
const LINE = 19;
const MARGIN = 16;
const BAR = 30;

/** A picture of a terminal, as SVG in light and dark, from the lines of commands (behind `$ `) and what they print. */
export function terminalPicture(text: string): string {
  const lines = text.trimEnd().split('\n').flatMap(wrapped);
  const width = Math.ceil(COLUMNS * CHARACTER) + 2 * MARGIN;
  const height = BAR + lines.length * LINE + MARGIN;
  const texts = lines.map(
    (line, index) =>
      `  <text x="${MARGIN}" y="${BAR + (index + 1) * LINE - 5}"${classOf(line)}>${escaped(line)}</text>`,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" font-family="ui-monospace, 'SF Mono', Menlo, Consolas, 'Liberation Mono', monospace" font-size="13">
  <!-- Generated from terminal.txt by build/docs.ts. -->
  <title>The agent at work in a terminal</title>
  <style>
    :root { --ink: #1f2328; --soft: #59636e; --paper: #f6f8fa; --line: #d1d9e0; --typed: #0550ae; }
    @media (prefers-color-scheme: dark) {
      :root { --ink: #e6edf3; --soft: #9198a1; --paper: #0d1117; --line: #3d444d; --typed: #79c0ff; }
    }
    text { fill: var(--ink); white-space: pre; }
    .typed { fill: var(--typed); font-weight: 600; }
    .soft { fill: var(--soft); }
    rect { fill: var(--paper); stroke: var(--line); }
    circle { fill: var(--line); }
  </style>
  <rect x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8"/>
  <circle cx="18" cy="16" r="5"/>
  <circle cx="36" cy="16" r="5"/>
  <circle cx="54" cy="16" r="5"/>
${texts.join('\n')}
</svg>
`;
}

/** The parts of a line that fit, each after the first indented. */
function wrapped(line: string): readonly string[] {
  if (line.length <= COLUMNS) return [line];
  const end = line.lastIndexOf(' ', COLUMNS);
  const indent = `${/^ */.exec(line)?.[0] ?? ''}    `;
  if (end <= indent.length) return [line];
  return [line.slice(0, end), ...wrapped(indent + line.slice(end + 1))];
}

function classOf(line: string): string {
  if (line.startsWith('$ ')) return ' class="typed"';
  return line.startsWith(' ') ? ' class="soft"' : '';
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
