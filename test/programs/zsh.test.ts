import { execFileSync } from 'node:child_process';
import { describe, it } from 'node:test';
import { COMMANDS } from '../../cmd/ip-masq-agent/commands.ts';
import { completionScript } from '../../cmd/ip-masq-agent/completion.ts';

describe('zsh', () => {
  it('parses its completion script', () => {
    execFileSync('zsh', ['-f', '-n'], { input: completionScript('zsh', COMMANDS) });
  });
});
