import { KINDS, type Problem, type Severity } from '../config/problem.ts';
import { prettyJson } from '../text/escape.ts';
import { type CheckReport, fileOf, printedSentence } from './report.ts';

const SCHEMA = 'https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json';

const LEVEL: Readonly<Record<Severity, string>> = { error: 'error', warning: 'warning', info: 'note' };

/**
 * The problems for editors and code scanning (OASIS, "Static Analysis Results Interchange Format", 2.1.0).
 *
 * @param version of the agent, which makes the report
 */
export function sarifReport({ problems }: CheckReport, version: string): string {
  const driver = { name: 'ip-masq-agent', version, rules: rules() };
  const run = { tool: { driver }, columnKind: 'utf16CodeUnits', results: problems.map(result) };
  return prettyJson({ version: '2.1.0', $schema: SCHEMA, runs: [run] });
}

function rules() {
  return Object.entries(KINDS).map(([id, { meaning, severity }]) => ({
    id,
    shortDescription: { text: plainText(meaning) },
    defaultConfiguration: { level: LEVEL[severity] },
  }));
}

function result(problem: Problem) {
  const { kind, severity, at, other } = problem;
  const related = locations(other).map((where) => ({ ...where, message: { text: 'The other of the two.' } }));
  return {
    ruleId: kind,
    level: LEVEL[severity],
    message: { text: plainText(printedSentence(problem)) },
    locations: locations(at),
    ...(related.length === 0 ? {} : { relatedLocations: related }),
  };
}

/** One location, or none for what is not in a file. */
function locations(at: Problem['at']) {
  const file = fileOf(at);
  if (file === undefined) return [];
  const artifactLocation = { uri: uriReference(file) };
  const region = at?.kind === 'file' ? { region: { startLine: at.line, startColumn: at.column } } : {};
  return [{ physicalLocation: { artifactLocation, ...region } }];
}

/**
 * The path as a URI reference (RFC 3986), relative if the path is. Empty segments and "." go, but not ".."
 * (SARIF, 3.10.2: a link on the way may make it another file). The name of standard input becomes a relative
 * reference too.
 */
function uriReference(path: string): string {
  const segments = path.split('/').filter((segment) => segment !== '' && segment !== '.');
  const encoded = segments.map((segment) => encodeURIComponent(segment.toWellFormed())).join('/');
  return path.startsWith('/') ? `file:///${encoded}` : encoded || './';
}

/** The text with what would be a placeholder (SARIF, 3.11.5) or an embedded link (3.11.6) taken literally. */
function plainText(text: string): string {
  return text.replace(/[{}]/g, '$&$&').replace(/(\\*)\]\(/g, '$1$1\\](');
}
