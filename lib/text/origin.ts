import { fileName } from './escape.ts';

/** Where a value came from. */
export type Origin = FileOrigin | BuiltInOrigin;

/** A position in a config file; line and column count from 1, the column in UTF-16 code units. */
export interface FileOrigin {
  readonly kind: 'file';
  readonly configFile: string;
  /** The file that line and column count in, if that is not a file of the config file's name. */
  readonly file?: string;
  readonly line: number;
  readonly column: number;
}

/** A value of the agent's own, such as a default. */
interface BuiltInOrigin {
  readonly kind: 'built-in';
  /** What the value follows: a document such as `RFC 3927`, or `default`. */
  readonly basis: string;
}

export interface Located<Value> {
  readonly value: Value;
  readonly origin: Origin;
  /** The other origins of a value that was made of several. */
  readonly others?: readonly Origin[];
}

/** A value and where it comes from: `10.0.0.0/8 of ip-masq-cloud:3:5`, `169.254.0.0/16 (built in, RFC 3927)`. */
export function withOrigin(text: string, origin: Origin): string {
  return origin.kind === 'built-in'
    ? `${text} (built in, ${origin.basis})`
    : `${text} of ${formatOrigin(origin)}`;
}

/** `ip-masq-cloud:3:5`, `manifest.yaml:17:9`, or what built the value in. Never contains control characters. */
export function formatOrigin(origin: Origin): string {
  if (origin.kind === 'built-in') return `built in (${origin.basis})`;
  return `${fileName(origin.file ?? origin.configFile)}:${origin.line}:${origin.column}`;
}

/** The origin as plain values for JSON: `{configFile, file, line, column}`, or `{builtIn}`. */
export function originValue(origin: Origin) {
  if (origin.kind === 'built-in') return { builtIn: origin.basis };
  const { configFile, file = configFile, line, column } = origin;
  return { configFile, file, line, column };
}
