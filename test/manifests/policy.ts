import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadAll } from 'js-yaml';
import { compile, type Program } from './cel.ts';
import { KUBERNETES } from './kustomize.ts';

interface PolicySpec {
  readonly failurePolicy: string;
  readonly matchConditions: readonly Named[];
  readonly variables?: readonly Named[];
  readonly validations: readonly Validation[];
}

interface Named {
  readonly name: string;
  readonly expression: string;
}

interface Validation {
  readonly expression: string;
  readonly message?: string;
  readonly messageExpression?: string;
}

interface Binding {
  readonly metadata: { readonly name: string };
  readonly spec: { readonly policyName: string; readonly validationActions: readonly string[] };
}

/** A ValidatingAdmissionPolicy that is bound. */
export interface Policy {
  readonly actions: readonly string[];
  readonly failurePolicy: string;
  /**
   * The messages of the validations that fail; none where the policy does not match. Throws where CEL fails.
   *
   * @param more what the API server tells beside the new object, such as `request` and `oldObject`
   */
  review(object: object, more?: Readonly<Record<string, object>>): readonly string[];
}

/** The policy of a file of the examples, below examples/kubernetes, and how it is bound. */
export function readPolicy(file: string): Policy {
  const text = readFileSync(join(KUBERNETES, file), 'utf8');
  const [policy, binding] = loadAll(text) as [{ metadata: { name: string }; spec: PolicySpec }, Binding];
  if (binding.spec.policyName !== policy.metadata.name) throw new Error(`${file}: nothing is bound`);
  const { failurePolicy } = policy.spec;
  return { actions: binding.spec.validationActions, failurePolicy, review: reviewer(policy.spec) };
}

function reviewer(spec: PolicySpec): Policy['review'] {
  const conditions = spec.matchConditions.map(({ expression }) => compile(expression));
  const variables = (spec.variables ?? []).map(
    ({ name, expression }) => [name, compile(expression)] as const,
  );
  const validations = spec.validations.map(({ expression, message, messageExpression }) => ({
    holds: compile(expression),
    message: messageExpression === undefined ? (): string => message ?? '' : compile(messageExpression),
  }));
  return (object, more = {}) => {
    const known = {
      ...(more as Record<string, never>),
      object: object as never,
      variables: {} as Record<string, never>,
    };
    if (!conditions.every((condition) => condition(known) === true)) return [];
    for (const [name, value] of variables) known.variables[name] = value(known) as never;
    return validations
      .filter(({ holds }) => holds(known) !== true)
      .map(({ message }) => textOf(message, known));
  };
}

/** The longest message that the API server shows, in bytes. */
const MAX_MESSAGE = 5 * 1024;

/** @throws {Error} where the API server would show the expression instead: it shows one line, neither empty nor long */
function textOf(message: Program | (() => string), known: Parameters<Program>[0]): string {
  const text = message(known);
  if (typeof text !== 'string' || text.trim() === '' || text.includes('\n'))
    throw new Error(`no message: ${text}`);
  if (Buffer.byteLength(text) > MAX_MESSAGE) throw new Error(`a message of ${text.length} characters`);
  return text;
}
