// Encrypts the digest that is the version of a row without `xmin`.
import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto';
import type { VersionCipher } from './resource-view.ts';

const DIGEST = /^[0-9a-f]{32}$/;
/** A digest is one block, so that equal digests have equal texts and each text has one digest. */
const CIPHER = 'aes-256-ecb';

/**
 * The keyed digest of a row: PostgreSQL computes the digest, and the service encrypts it. The key is in no statement, so
 * pg_stat_activity and the logs of PostgreSQL cannot show it. Without the key, a version confirms no guess of the row's values.
 * @param secret that all processes on the database share
 */
export function createVersionCipher(secret: Buffer): VersionCipher {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'vitrine row version', 32));
  return {
    encrypt: (version) => {
      const cipher = createCipheriv(CIPHER, key, null).setAutoPadding(false);
      return cipher.update(version, 'hex', 'hex') + cipher.final('hex');
    },
    decrypt: (text) => {
      if (!DIGEST.test(text)) return undefined;
      const decipher = createDecipheriv(CIPHER, key, null).setAutoPadding(false);
      return decipher.update(text, 'hex', 'hex') + decipher.final('hex');
    },
  };
}
