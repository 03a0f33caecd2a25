import { describe } from 'node:test';
import { itAdds, itRejects, joined } from './support.ts';

describe('what is no CNI config, or none that is known, is an error', () => {
  itRejects([
    ['a list', '[]', 0, /^is a list/, /braces/],
    ['text', '"x"', 0, /^is text/, /braces/],
    ['no type', '{"name": "x"}', 0, /without "type"/, /win-bridge/],
    ['a type that is a number', '{"type": 1}', '1', /"type" must be text .* is a number/, /text/],
    ['plugins that are no list', '{"plugins": {}}', '{}', /"plugins" must be a list .* an object/, /list/],
    ['a plugin that is no object', '{"plugins": [1]}', '1', /a plugin must be an object/, /object/],
    ['plugins in other case', '{"Plugins": []}', '"Plugins"', /libcni does not read/, /"plugins"/],
    ['plugins beside a type', '{"plugins": [], "Type": "x"}', '"Type"', /both/, /remove/],
    ['flannel alone', '{"type": "flannel"}', 0, /no "delegate"/, /"delegate"/],
    [
      'a delegate that is text',
      '{"type": "flannel", "delegate": "x"}',
      '"x"',
      /"delegate" must be/,
      /object/,
    ],
  ]);
});

describe('each plugin gets the policy where and as it reads it', () => {
  const list = `[${joined(',')}]`;
  const api1 = `{"Type":"OutBoundNAT","ExceptionList":${list}}`;
  const api2 = `{"Type":"OutBoundNAT","Settings":{"Exceptions":${list}}}`;
  const policies = (value: string) => `"policies":[{"name":"EndpointPolicy","value":${value}}]`;
  const additionalArgs = (value: string) => `"AdditionalArgs":[{"Name":"EndpointPolicy","Value":${value}}]`;

  const adds = (plugin: string, added: string) => [plugin, `{${plugin}}`, `{${plugin},${added}}`] as const;
  itAdds([
    adds('"type":"win-bridge"', policies(api1)),
    adds('"type":"win-bridge","apiVersion":1', policies(api1)),
    adds('"type":"win-bridge","apiVersion":2', policies(api2)),
    adds('"type":"win-overlay","apiVersion":2', policies(api2)),
    adds('"type":"Win-Overlay.EXE"', policies(api1)),
    adds('"type":"calico"', policies(api1)),
    adds('"type":"calico","apiVersion":2', policies(api1)),
    adds('"type":"azure-vnet"', additionalArgs(api1)),
    adds('"type":"sdnbridge"', additionalArgs(api2)),
    adds('"type":"sdnoverlay"', additionalArgs(api2)),
  ]);
});
