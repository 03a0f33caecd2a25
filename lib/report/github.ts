import { STDIN_NAME } from '../config/config-file.ts';
import { locationText, type Problem, type Severity, sentence } from '../config/problem.ts';
import { printable } from '../text/escape.ts';
import type { CheckReport } from './report.ts';

const COMMAND: Readonly<Record<Severity, string>> = { error: 'error', warning: 'warning', info: 'notice' };

/**
 * The problems as annotations, one line each, that GitHub Actions takes from a step's output
 * (GitHub documentation, "Workflow commands for GitHub Actions").
 */
export function githubReport({ problems }: CheckReport): string {
  return problems.map((problem) => `${annotation(problem)}\n`).join('');
}

function annotation(problem: Problem): string {
  const properties = Object.entries(propertiesOf(problem)).map(
    ([name, value]) => `${name}=${escapeProperty(value)}`,
  );
  const { at } = problem;
  const head = at && fileOf(at) === STDIN_NAME ? `${locationText(at)}: ` : '';
  const text = escapeData(head + printable(sentence(problem)));
  return `::${COMMAND[problem.severity]} ${properties.join(',')}::${text}`;
}

function propertiesOf({ at, kind }: Problem): Readonly<Record<string, string>> {
  const title = `ip-masq-agent ${kind}`;
  const file = fileOf(at);
  // Standard input is not a file of the repository.
  if (file === undefined || file === STDIN_NAME) return { title };
  const place: Record<string, string> =
    at?.kind === 'file' ? { line: String(at.line), col: String(at.column) } : {};
  return { file: printable(file), ...place, title };
}

/** The name of the file in which people find it; undefined if it is in none. May be hostile. */
function fileOf(at: Problem['at']): string | undefined {
  if (at?.kind === 'file') return at.file ?? at.configFile;
  return at?.kind === 'whole-file' ? at.file : undefined;
}

/** The text written as the data of a command, so that the runner reads it back the same. */
function escapeData(text: string): string {
  return text.replace(/[%\r\n]/g, percentEncoded);
}

/** The text written as the value of a property, so that the runner reads it back the same. */
function escapeProperty(text: string): string {
  return text.replace(/[%\r\n:,]/g, percentEncoded);
}

function percentEncoded(char: string): string {
  return `%${char.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`;
}
