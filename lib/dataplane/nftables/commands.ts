import type { Family } from '../../cidr/address.ts';
import { formatRange, type Range } from '../../cidr/ranges.ts';
import { type Change, elementChanges } from '../../netlink/change.ts';
import { encode } from './encode.ts';
import { tableName } from './names.ts';
import { chainProperties, ruleText, setProperties } from './ruleset.ts';
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
      ...sets.flatMap((set) => this.#addSet(set)),
    ];
  }

  deleteTable(): NftCommand {
    return { change: { kind: 'delete table', ...this.#place }, text: `delete table ${this.#name}` };
  }

  #addSet(set: MeantSet): readonly NftCommand[] {
    const { name, comment, properties, ranges } = set;
    const text = `add set ${this.#name} ${name} { ${setProperties(set).join('; ')}; }`;
    const counts = properties.includes('counter');
    return [
      { change: { kind: 'add set', ...this.#place, set: name, counts, comment }, text },
      ...this.elements('add', name, ranges),
    ];
  }

  /** None if there are no ranges. */
  elements(verb: 'add' | 'delete', set: string, ranges: readonly Range[]): readonly NftCommand[] {
    return elementChanges(`${verb} elements`, { ...this.#place, set }, ranges).map((change) => {
      const texts = change.ranges.map((one) => formatRange(this.#family, one));
      return { change, text: `${verb} element ${this.#name} ${set} { ${texts.join(', ')} }` };
    });
  }

  /** The chains with their rules. */
  addChains(chains: readonly MeantChain[]): readonly NftCommand[] {
    return chains.flatMap((chain) => {
      const { name, comment, hook } = chain;
      const properties = chainProperties(chain).map((one) => one.replace(/;$/, ''));
      const text = `add chain ${this.#name} ${name} { ${properties.join('; ')}; }`;
      return [
        { change: { kind: 'add chain', ...this.#place, chain: name, hook, comment }, text },
        ...this.addRules(chain),
      ];
    });
  }

  flushChain(chain: string): NftCommand {
    return {
      change: { kind: 'flush chain', ...this.#place, chain },
      text: `flush chain ${this.#name} ${chain}`,
    };
  }

  addRules({ name, rules }: MeantChain): readonly NftCommand[] {
    return rules.map((rule) => {
      const { statements, comment } = rule;
      const expressions = encode(this.#family, statements);
      return {
        change: { kind: 'add rule', ...this.#place, chain: name, expressions, comment },
        text: `add rule ${this.#name} ${name} ${ruleText(this.#family, rule)}`,
      };
    });
  }

  get #place() {
    return { family: this.#family, table: this.#table };
  }
}

/** The commands as input of nft -f: a blank line ends a transaction. */
export function scriptOf(transactions: readonly (readonly NftCommand[])[]): string {
  return transactions.map((commands) => commands.map(({ text }) => `${text}\n`).join('')).join('\n');
}
