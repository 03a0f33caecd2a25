import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AZURE, MINIFIED, policyOf } from './samples.ts';
import { changed, itRejects, itReplaces, joined } from './support.ts';

describe('the list in a policy', () => {
  itReplaces([
    [
      'with a policy named in other case',
      MINIFIED.replace('"Endpoint', '"endpoint'),
      '["10.96.0.0/12"]',
      `[${joined(',')}]`,
    ],
    [
      'of a Type in other case',
      MINIFIED.replace('OutBoundNAT', 'outboundnat'),
      '["10.96.0.0/12"]',
      `[${joined(',')}]`,
    ],
    [
      'of a plugin that is not known',
      MINIFIED.replace('win-bridge', 'ours'),
      '["10.96.0.0/12"]',
      `[${joined(',')}]`,
    ],
    [
      'in a policy of azure-vnet in other case',
      AZURE.replace('"ExceptionList"', '"exceptionlist"'),
      '"10.240.0.0/16",\n                            "10.0.0.0/8"',
      joined(`,\n${' '.repeat(28)}`),
    ],
  ]);

  it('leaves alone what other plugins mean by the same keys', () => {
    const config = `{"plugins":[${MINIFIED},{"type":"other","policies":{"a":1}},{"type":"other","policies":[1,{"value":2}]}]}`;
    assert.equal(changed(config), config.replace('"10.96.0.0/12"', joined(',')));
  });
});

describe('a policy that its plugin would not read is an error', () => {
  itRejects([
    [
      'policies that are an object',
      '{"type": "win-bridge", "policies": {}}',
      '{}',
      /"policies" must be/,
      /list/,
    ],
    [
      'a policy that is text',
      '{"type": "win-bridge", "policies": ["x"]}',
      '"x"',
      /a policy must be/,
      /object/,
    ],
    ['a value that is text', policyOf('"x"'), '"x"', /value of a policy must be/, /object/],
    ['a Type that is a number', policyOf('{"Type":1}'), '1', /"Type" must be text/, /text/],
    [
      'two policies',
      twice(),
      '{"Type":"OutBoundNAT","x',
      /more than one OutBoundNAT .* "win-bridge"/,
      /keep one/,
    ],
    ['a policy without name', unnamed(''), '{"value"', /no name, .* "win-bridge" skips/, /EndpointPolicy/],
    [
      'a policy of another name',
      unnamed('"name":"NetworkPolicy",'),
      '"NetworkPolicy"',
      /skips/,
      /EndpointPolicy/,
    ],
    [
      'the name in other case in AdditionalArgs',
      AZURE.replace('"EndpointPolicy"', '"endpointPolicy"'),
      '"endpointPolicy"',
      /"azure-vnet" skips/,
      /EndpointPolicy/,
    ],
    [
      'the Type in other case in azure-vnet',
      AZURE.replace('OutBoundNAT', 'OutboundNat'),
      '"OutboundNat"',
      /does not take/,
      /OutBoundNAT/,
    ],
    [
      'a lower-case type',
      policyOf('{"type":"OutBoundNAT"}'),
      '"type":"Out',
      /HNS does not read/,
      /write "Type"/,
    ],
    [
      'policies in the key of others',
      MINIFIED.replace('"policies"', '"additionalArgs"'),
      '"additionalArgs"',
      /"AdditionalArgs", which plugin "win-bridge" does not read/,
      /"policies"/,
    ],
    [
      'HcnPolicyArgs',
      '{"type":"win-bridge","HcnPolicyArgs":[{"Type":"OutBoundNAT","Settings":{}}]}',
      '"HcnPolicyArgs"',
      /no longer read/,
      /"policies"/,
    ],
  ]);
});

function unnamed(name: string): string {
  return `{"type":"win-bridge","policies":[{${name}"value":{"Type":"OutBoundNAT"}}]}`;
}

function twice(): string {
  const policy = (value: string) => `{"name":"EndpointPolicy","value":${value}}`;
  const [one, two] = [policy('{"Type":"OutBoundNAT"}'), policy('{"Type":"OutBoundNAT","x":1}')];
  return `{"type":"win-bridge","policies":[${one},${two}]}`;
}
