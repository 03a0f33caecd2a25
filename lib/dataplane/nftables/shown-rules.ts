import type { Expression } from '../../netlink/expressions.ts';
import type { RuleReply } from '../../netlink/replies.ts';
import { rawText } from './recognise.ts';
import type { MeantChain } from './table.ts';

/** How the kernel shows rules that the agent has written: a newer one may add attributes to their expressions. */
export class ShownRules {
  readonly #meant = new Map<string, readonly Expression[]>();

  /** Takes note of rules as the kernel shows them. Nobody else may have changed anything since they were written. */
  learn(chains: readonly MeantChain[], read: readonly RuleReply[]): void {
    for (const { name, rules } of chains) {
      const shown = read.filter(({ chain }) => chain === name);
      if (shown.length !== rules.length) continue;
      for (const [index, { expressions }] of rules.entries()) {
        const text = rawText(shown[index]?.expressions ?? []);
        if (text !== rawText(expressions)) this.#meant.set(text, expressions);
      }
    }
  }

  /** The rules with the expressions that the agent has written, if the kernel shows these so. */
  asMeant(read: readonly RuleReply[]): readonly RuleReply[] {
    return read.map((rule) => {
      return { ...rule, expressions: this.#meant.get(rawText(rule.expressions)) ?? rule.expressions };
    });
  }
}
