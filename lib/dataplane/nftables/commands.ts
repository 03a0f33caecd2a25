import type { Family } from '../../cidr/address.ts';
import { formatRange, type Range } from '../../cidr/ranges.ts';
import type { Change } from '../../netlink/change.ts';
import { encode } from './encode.ts';
import { tableName } from './names.ts';
import { chainProperties, ruleText, setProperties, type TableRule } from './ruleset.ts';
import type { MeantChain, MeantSet, PolicyTable } from './table.ts';

/** A change of nf_tables, and the command of nft(8) that does the same. */
export interface NftCommand {
  readonly change: Change;
  readonly text: string;
}

/** Makes commands for a table. */
export class NftCommands {
  readonly #family: Family;
  readonly #table: string;
  readonly #name: string;

  constructor(family: Family, table: string) {
    this.#family = family;
    this.#table = table;
    this.#name = tableName(family, table);
  }

  /** The table with its sets and their elements, through which no packet goes yet. */
  addTable({ comment, sets }: PolicyTable): readonly NftCommand[] {
    const text = `add table ${this.#name} { comment "${comment}"; }`;
    return [
      { change: { kind: 'add table', ...this.#place, comment }, text },
      ...sets.flatMap((set) => this.addSet(set)),
    ];
  }

  deleteTable(): NftCommand {
    return { change: { kind: 'delete table', ...this.#place }, text: `delete table ${this.#name}` };
  }

  addSet(set: MeantSet): readonly NftCommand[] {
    const { name, comment, properties, ranges } = set;
    const text = `add set ${this.#name} ${name} { ${setProperties(set).join('; ')}; }`;
    const counts = properties.includes('counter');
    return [
      { change: { kind: 'add set', ...this.#place, set: name, counts, comment }, text },
      ...this.elements('add', name, ranges),
    ];
  }

  deleteSet(set: string): NftCommand {
    return { change: { kind: 'delete set', ...this.#place, set }, text: `delete set ${this.#name} ${set}` };
  }

  /** None if there are no ranges. */
  elements(verb: 'add' | 'delete', set: string, ranges: readonly Range[]): readonly NftCommand[] {
    if (ranges.length === 0) return [];
    const family = this.#family;
    const [name, place] = [this.#name, this.#place];
    return [
      {
        change: { kind: `${verb} elements`, ...place, set, ranges },
        // With many elements this takes long, and only few ask for it.
        get text() {
          return `${verb} element ${name} ${set} { ${ranges.map((one) => formatRange(family, one)).join(', ')} }`;
        },
      },
    ];
  }

  addChain(chain: MeantChain): readonly NftCommand[] {
    const { name, comment, hook } = chain;
    const properties = chainProperties(chain).map((one) => one.replace(/;$/, ''));
    const text = `add chain ${this.#name} ${name} { ${properties.join('; ')}; }`;
    return [
      { change: { kind: 'add chain', ...this.#place, chain: name, hook, comment }, text },
      ...this.addRules(chain),
    ];
  }

  addRules({ name, rules }: MeantChain): readonly NftCommand[] {
    return rules.map((rule) => this.#addRule(name, rule));
  }

  #addRule(chain: string, rule: TableRule): NftCommand {
    const expressions = encode(this.#family, rule.statements);
    const { comment } = rule;
    return {
      change: { kind: 'add rule', ...this.#place, chain, expressions, comment },
      text: `add rule ${this.#name} ${chain} ${ruleText(this.#family, rule)}`,
    };
  }

  /** Without its rules, or all of it. */
  empty(verb: 'flush' | 'delete', chain: string): NftCommand {
    return {
      change: { kind: `${verb} chain`, ...this.#place, chain },
      text: `${verb} chain ${this.#name} ${chain}`,
    };
  }

  get #place() {
    return { family: this.#family, table: this.#table };
  }
}

/** The commands as input of nft -f: a blank line ends a transaction. */
export function scriptOf(transactions: readonly (readonly NftCommand[])[]): string {
  return transactions.map((commands) => commands.map(({ text }) => `${text}\n`).join('')).join('\n');
}
