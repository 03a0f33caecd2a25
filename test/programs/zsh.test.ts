import { execFileSync } from 'node:child_process';
import { describe, it } from 'node:test';
import { completionScript } from '../../cmd/ip-masq-agent/completion-script.ts';

describe('zsh', () => {
  it('parses its completion script', () => {
    execFileSync('zsh', ['-f', '-n'], { input: completionScript('zsh') });
  });
});
