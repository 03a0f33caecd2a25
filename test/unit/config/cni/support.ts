import assert from 'node:assert/strict';
import { it } from 'node:test';
import { withExceptionList } from '../../../../lib/config/cni/exception-list.ts';

/** What the list is set to. */
export const TWO = ['10.0.0.0/8', '172.16.0.0/12'];

/** A name of the test, a config, what the list of TWO takes the place of, and the list. */
export type Replacement = readonly [name: string, config: string, before: string, after: string];

export function itReplaces(cases: readonly Replacement[]): void {
  for (const [name, config, before, after] of cases) {
    it(`${name} is replaced, and nothing else`, () => {
      assert.ok(config.includes(before));
      const expected = config.replace(before, after);
      assert.equal(changed(config), expected);
      assert.equal(changed(expected), expected);
    });
  }
}

export function itAdds(cases: readonly (readonly [name: string, config: string, expected: string])[]): void {
  for (const [name, config, expected] of cases) {
    it(name, () => {
      assert.equal(changed(config), expected);
      assert.equal(changed(expected), expected);
      assert.deepEqual(
        JSON.parse(changed(expected, [])),
        JSON.parse(expected.replace(/\[\s*"1[^\]]*\]/, '[]')),
      );
    });
  }
}

/** A name of the test, a config, and its error: the offset or the text there, the message, the remedy. */
export type Rejection = readonly [
  name: string,
  config: string,
  at: number | string | undefined,
  message: RegExp,
  remedy: RegExp,
];

export function itRejects(cases: readonly Rejection[]): void {
  for (const [name, config, at, message, remedy] of cases) {
    it(`for ${name}`, () => {
      for (const text of [config, `\ufeff${config}`]) {
        const result = withExceptionList(text, TWO);
        assert.ok('error' in result, JSON.stringify(result));
        const { error } = result;
        assert.match(error.message, message);
        assert.match(error.remedy, remedy);
        const shift = text === config || /^is (?:empty|longer)/.test(error.message) ? 0 : 1;
        if (typeof at === 'number') assert.equal(error.offset, at + shift);
        if (typeof at === 'string') assert.equal(error.offset, text.indexOf(at));
      }
    });
  }
}

export function joined(separator: string): string {
  return TWO.map((cidr) => `"${cidr}"`).join(separator);
}

export function changed(config: string, cidrs: readonly string[] = TWO): string {
  const result = withExceptionList(config, cidrs);
  assert.ok('text' in result, `${JSON.stringify(result)} for ${config}`);
  return result.text;
}
