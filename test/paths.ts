import { join } from 'node:path';

/** The folder of the repository, with a slash: `npm test` runs in it, and the compiled tests lie elsewhere. */
export const REPOSITORY = join(process.cwd(), '/');
