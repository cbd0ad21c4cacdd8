// The titles of the system tables that the admin area shows, and of their columns, in the language of the request.
import type { AdminViews } from '../../resources/access/admin-view.ts';
import { SHOWN_SYSTEM_TABLES } from '../../resources/definition/system-tables.ts';
import { ENGLISH } from '../texts/english.ts';
import { t, type PlainCode } from './language.ts';

const CODES = [
  'history',
  'events',
  'when',
  'user',
  'userId',
  'where',
  'action',
  'model',
  'record',
  'before',
  'after',
  'roles',
  'address',
  'request',
  'batch',
  'cause',
  'event',
  'detail',
] as const satisfies readonly PlainCode[];

const codeOf = new Map<string, PlainCode>(CODES.map((code) => [ENGLISH[code], code]));

/** Lets the titles follow the language. Those of other resources are the words of their operator. */
export function translateTitles(resources: AdminViews): void {
  for (const { model: name } of SHOWN_SYSTEM_TABLES) {
    const view = resources.get(name);
    for (const titled of view ? [view, ...view.model.columns, ...view.output, ...view.list] : []) {
      const code = codeOf.get(titled.title);
      if (code) Object.defineProperty(titled, 'title', { get: () => t(code), configurable: true });
    }
  }
}
