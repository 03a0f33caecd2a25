import { STDIN_NAME } from '../config/config-file.ts';
import { locationText, type Problem, type Severity } from '../config/problem.ts';
import { printable } from '../text/escape.ts';
import { type CheckReport, fileOf, printedSentence } from './report.ts';

const COMMAND: Readonly<Record<Severity, string>> = { error: 'error', warning: 'warning', info: 'notice' };

/**
 * The problems as annotations, one line each, that GitHub Actions takes from a step's output
 * (GitHub documentation, "Workflow commands for GitHub Actions").
 *
 * @param stdinName the file of the repository that standard input was made from; empty if there is none
 */
export function githubReport({ problems }: CheckReport, stdinName = ''): string {
  return problems.map((problem) => `${annotation(problem, stdinName)}\n`).join('');
}

function annotation(problem: Problem, stdinName: string): string {
  const properties = Object.entries(propertiesOf(problem, stdinName)).map(
    ([name, value]) => `${name}=${escapeProperty(value)}`,
  );
  const { at } = problem;
  const head = stdinName !== '' && fileOf(at) === STDIN_NAME && at ? `${printable(locationText(at))}: ` : '';
  const text = escapeData(head + printedSentence(problem));
  return `::${COMMAND[problem.severity]} ${properties.join(',')}::${text}`;
}

function propertiesOf({ at, kind }: Problem, stdinName: string): Readonly<Record<string, string>> {
  const title = `ip-masq-agent ${kind}`;
  const file = fileOf(at);
  // The lines of what was made from it are not its own.
  if (file === STDIN_NAME && stdinName !== '') return { file: printable(stdinName), title };
  // Standard input is not a file of the repository.
  const isFile = file !== undefined && file !== STDIN_NAME;
  return {
    ...(isFile ? { file: printable(file) } : {}),
    ...(at?.kind === 'file' ? { line: String(at.line), col: String(at.column) } : {}),
    title,
  };
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
