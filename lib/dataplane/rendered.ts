import type { Policy } from '../policy/policy.ts';
import type { RuleOptions } from './options.ts';

/**
 * The same function, which renders a policy once as long as the options are the same object: every sync, count and scrape
 * needs the rules, and with many entries rendering is slow.
 */
export function renderedOnce<Rendered>(
  render: (policy: Policy, options: RuleOptions) => Rendered,
): (policy: Policy, options: RuleOptions) => Rendered {
  const known = new WeakMap<Policy, { readonly options: RuleOptions; readonly rendered: Rendered }>();
  return (policy, options) => {
    const last = known.get(policy);
    if (last?.options === options) return last.rendered;
    const rendered = render(policy, options);
    known.set(policy, { options, rendered });
    return rendered;
  };
}
