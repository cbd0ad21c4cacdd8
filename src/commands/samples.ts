// The sample records of the shipped registry.
import { randomBytes } from 'node:crypto';
import type { Operations } from '../resources/records/operations.ts';
import { parseJsonFields } from '../resources/records/json-fields.ts';
import type { ResourceViews } from '../resources/access/resource-view.ts';
import type { UserManagement } from '../resources/records/user-management.ts';
import { ADMIN, type Caller } from '../resources/access/access.ts';

const USERS = ['ada', 'grace', 'linus'];
const MESSAGES: readonly [author: string, content: string][] = [
  ['ada', 'The engine weaves algebraic patterns just as the loom weaves flowers and leaves.'],
  ['grace', 'Found a moth in relay 70 of panel F. Taped it into the log book.'],
  ['linus', 'Just a hobby, it will not be big and professional.'],
  ['ada', 'Notes are longer than the paper they annotate. So be it.'],
  ['grace', 'The most dangerous phrase: we have always done it this way.'],
];
const FOLLOWS: readonly [from: string, to: string][] = [
  ['grace', 'ada'],
  ['linus', 'ada'],
  ['linus', 'grace'],
];
const NOTES = ['Look, but do not touch.', 'The key is with the admin.'];

/** Adds a few sample records to the tables of the shipped registry. The passwords of the sample users are random and not shown. */
export async function loadSamples(
  resources: ResourceViews,
  operations: Operations,
  users: UserManagement,
  minPassword = 1,
): Promise<void> {
  const authors = new Map<string, Caller>();
  for (const name of USERS) {
    await users.add(
      name,
      randomBytes(Math.max(18, minPassword)).toString('base64').slice(0, 1024),
      false,
      new Map([['email', `${name}@example.org`]]),
    );
    const user = await users.find(name);
    if (user) authors.set(name, user);
  }
  const create = async (model: string, author: string, fields: object): Promise<void> => {
    // Admins may read the users to which the records refer, whatever READ says.
    const resource = resources.get(model)?.for(ADMIN);
    const caller = authors.get(author);
    if (resource && caller)
      await operations.create(resource, parseJsonFields(JSON.stringify(fields)), caller);
  };
  for (const [author, content] of MESSAGES) await create('message', author, { content });
  for (const [from, to] of FOLLOWS)
    await create('relationship', from, { to_user_id: Number(authors.get(to)?.id) });
  for (const message of NOTES) await create('note', 'ada', { message });
}
