import { fileURLToPath } from 'node:url';

/** The folder of the repository, with a slash. */
export const REPOSITORY = fileURLToPath(new URL('..', import.meta.url));
