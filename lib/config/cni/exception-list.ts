import { quote } from '../../text/escape.ts';
import { CniError } from './cni-error.ts';
import { appendItem, applyEdits, type Edit, setMember, setStrings } from './json-edit.ts';
import { field, member, members, stringOf } from './json-node.ts';
import { type Style, styleOf } from './json-style.ts';
import { formOf, formOfNewPolicy } from './list-form.ts';
import { ENDPOINT, NAT, natPolicy } from './nat-policy.ts';
import { KNOWN_PLUGINS, type Plugin, pluginsOf } from './plugins.ts';
import { type Node, parseStrict } from './strict-json.ts';

/** The config with the new list, or the first reason why it cannot be written. */
export type ExceptionListResult = { readonly text: string } | { readonly error: CniError };

/**
 * A Windows node's CNI config with `cidrs` as the destinations that are not SNATed, and nothing else
 * changed: key order, indentation, line breaks, byte order mark and the form of the list stay. The same
 * text where the list says just that already.
 *
 * The list is in the endpoint policy of Type OutBoundNAT. Every plugin with such a policy gets it. Where none
 * has, the policy is added to the one plugin that is known to read it; with none or several of them it is an
 * error, as is everything else that would need a guess: two such policies in a plugin, both forms at once, a
 * form or key that the plugin does not read.
 *
 * @param cidrs IPv4 CIDRs, written as they are
 */
export function withExceptionList(text: string, cidrs: readonly string[]): ExceptionListResult {
  try {
    const root = parseStrict(text);
    const style = styleOf(text, root);
    const edits = targets(root).map((target) => setList(style, target, cidrs));
    return { text: applyEdits(text, edits) };
  } catch (error) {
    if (error instanceof CniError) return { error };
    throw error;
  }
}

interface Target {
  readonly plugin: Plugin;
  /** Undefined where it has none. */
  readonly policy: Node | undefined;
}

function targets(root: Node): readonly Target[] {
  const all = pluginsOf(root).map((plugin) => ({ plugin, policy: natPolicy(plugin) }));
  const having = all.filter(({ policy }) => policy !== undefined);
  if (having.length > 0) return having;
  const makers = all.filter(({ plugin }) => plugin.dialect !== undefined);
  const [first, second] = makers;
  if (first === undefined) {
    const known = KNOWN_PLUGINS.join(', ');
    const message = `has no ${NAT} policy, and no plugin that is known to make Windows endpoints (${known})`;
    throw new CniError(message, root, `write an ${NAT} policy into the plugin that makes them`);
  }
  if (second === undefined) return makers;
  const names = `${quote(first.plugin.name)} and ${quote(second.plugin.name)}`;
  throw new CniError(
    `has no ${NAT} policy, and more than one plugin that could get it: ${names}`,
    second.plugin.config,
    `write an ${NAT} policy into the right one`,
  );
}

function setList(style: Style, { plugin, policy }: Target, cidrs: readonly string[]): Edit {
  if (policy === undefined) return addPolicy(style, plugin, cidrs);
  const form = formOf(plugin, policy);
  if (form === 'ExceptionList') return setStrings(style, policy, form, cidrs);
  const settings = field(policy, 'Settings');
  return settings === undefined
    ? setMember(style, policy, 'Settings', { [form]: cidrs })
    : setStrings(style, settings, form, cidrs);
}

function addPolicy(style: Style, plugin: Plugin, cidrs: readonly string[]): Edit {
  const key = plugin.dialect?.key ?? 'policies';
  const list = member(plugin.config, key)?.value;
  const capital = key === 'AdditionalArgs' || (list?.children ?? []).some(hasCapitalName);
  const [name, value] = capital ? ['Name', 'Value'] : ['name', 'value'];
  const form = formOfNewPolicy(plugin);
  const content = form === 'Exceptions' ? { Settings: { Exceptions: cidrs } } : { ExceptionList: cidrs };
  const item = { [name]: ENDPOINT, [value]: { Type: NAT, ...content } };
  return list?.type === 'array'
    ? appendItem(style, list, item)
    : setMember(style, plugin.config, key, [item]);
}

function hasCapitalName(item: Node): boolean {
  return members(item).some(({ key }) => stringOf(key) === 'Name');
}
