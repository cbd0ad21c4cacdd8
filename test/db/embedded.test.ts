// What the embedded PostgreSQL says when it cannot start.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startEmbedded } from '../../src/commands/embedded.ts';
import { StartError } from '../../src/errors.ts';
import { test } from 'node:test';

// Only root runs the server as another user.
if (process.getuid?.() === 0)
  test('as root, a folder that the user postgres may not enter is named', async () => {
    const closed = await mkdtemp(join(tmpdir(), 'vitrine embedded-')); // with mode 0700, like /root
    try {
      await assert.rejects(startEmbedded(join(closed, 'project', '.data')), (error) => {
        assert.ok(error instanceof StartError);
        assert.ok(error.message.includes(`may not enter ${closed}. Move the project`), error.message);
        return true;
      });
    } finally {
      await rm(closed, { recursive: true });
    }
  });
