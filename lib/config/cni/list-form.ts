import { quote } from '../../text/escape.ts';
import { CniError } from './cni-error.ts';
import { field, type Member, requireType } from './json-node.ts';
import { NAT, policyMember } from './nat-policy.ts';
import type { Form, Plugin } from './plugins.ts';
import type { Node } from './strict-json.ts';

/** In which form a plugin reads the list where it has no policy yet. */
export function formOfNewPolicy(plugin: Plugin): Form {
  return formRead(plugin) ?? 'ExceptionList';
}

/**
 * In which form the list of a policy is to be written.
 *
 * @throws {CniError} where it is there in another form than the plugin reads, or in both
 */
export function formOf(plugin: Plugin, policy: Node): Form {
  const read = formRead(plugin);
  const { list, settings, exceptions } = listsOf(plugin, policy);
  if (list !== undefined && exceptions !== undefined) {
    const message = `has both "ExceptionList" and "Settings.Exceptions" in one ${NAT} policy`;
    throw new CniError(message, exceptions.key, 'keep the one of the HNS API that the plugin uses');
  }
  const written = list ?? exceptions;
  if (written === undefined) return read ?? (settings === undefined ? 'ExceptionList' : 'Exceptions');
  const form = list === undefined ? 'Exceptions' : 'ExceptionList';
  if (read === undefined || read === form) return form;
  const why = plugin.dialect?.form === undefined ? 'with apiVersion 2' : `by plugin ${quote(plugin.name)}`;
  const message = `has ${example(form)} in an ${NAT} policy, which is not read ${why}`;
  throw new CniError(message, written.key, `write ${example(read)} instead`);
}

/** The one form that a plugin reads; undefined where it reads both. */
function formRead({ dialect, config }: Plugin): Form | undefined {
  return dialect?.form ?? (apiVersion(config) === 2 ? 'Exceptions' : undefined);
}

function apiVersion(config: Node): number | undefined {
  const version = field(config, 'apiVersion');
  if (version === undefined) return undefined;
  const number: unknown = version.value;
  if (typeof number === 'number' && Number.isInteger(number)) return number;
  throw new CniError('has an "apiVersion" that is not a whole number', version, 'write 1 or 2');
}

interface Lists {
  readonly list: Member | undefined;
  readonly settings: Node | undefined;
  readonly exceptions: Member | undefined;
}

function listsOf(plugin: Plugin, policy: Node): Lists {
  const list = policyMember(plugin, policy, 'ExceptionList');
  const found = policyMember(plugin, policy, 'Settings')?.value;
  const settings =
    found === undefined || found.type === 'null' ? undefined : requireType(found, 'object', '"Settings"');
  const exceptions = settings && policyMember(plugin, settings, 'Exceptions');
  rejectMisplaced(policyMember(plugin, policy, 'Exceptions'), 'has "Exceptions" outside of "Settings"');
  const inner = settings && policyMember(plugin, settings, 'ExceptionList');
  rejectMisplaced(inner, 'has "ExceptionList" in "Settings"');
  return { list, settings, exceptions };
}

/** HNS has one place for each form; in the other's place it overlooks the list. */
function rejectMisplaced(found: Member | undefined, message: string): void {
  if (found === undefined) return;
  const remedy = `write ${example('ExceptionList')} for HNS API 1, or ${example('Exceptions')} for API 2`;
  throw new CniError(`${message}, where HNS does not read it`, found.key, remedy);
}

function example(form: Form): string {
  return form === 'ExceptionList' ? '"ExceptionList": [...]' : '"Settings": {"Exceptions": [...]}';
}
