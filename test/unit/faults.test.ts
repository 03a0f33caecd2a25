import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { findEdits, readPatches } from '../faults/patch.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

describe('the planted faults', () => {
  for (const patch of readPatches())
    it(`break the sources as they are: ${patch.name}`, () => {
      assert.ok(findEdits(ROOT, patch).length > 0);
      const files = patch.commands.flatMap((command) => command.match(/\btest\/\S+\.test\.ts$/) ?? []);
      assert.ok(files.length > 0);
      for (const file of files) assert.ok(existsSync(join(ROOT, file)), file);
    });
});
