import { type Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, type Answer, type TestService, startBeside } from '../support.ts';

const guarded: Resource = { model: 'guarded', columns: { name: { type: 'string' } }, access: 'user' };
const resources = [user, guarded];

interface Limited {
  /** The superuser's service. */
  readonly service: TestService;
  readonly role: string;
  /** Sends a request to the service of the role. */
  readonly send: (method: string, path: string, name?: string) => Promise<Answer>;
}

/**
 * Serves as a role that has to keep policies.
 * @param policies SQL that makes them, of the table `guarded`
 */
export async function withPolicies(
  policies: string,
  work: (limited: Limited) => Promise<void>,
): Promise<void> {
  const service = await startService(resources);
  try {
    await service.addUser('ada');
    const { role, url } = await service.addRole(
      `grant all on all tables in schema public to ROLE; grant all on all sequences in schema public to ROLE;
      alter table guarded enable row level security; ${policies}`,
    );
    const limited = await startBeside(url, resources, { schema: 'check' });
    const send: Limited['send'] = (method, path, name) =>
      limited.request(path, { method, user: 'ada', ...(name === undefined ? {} : { body: { name } }) });
    await work({ service, role, send }).finally(() => limited.close());
  } finally {
    await service.close();
  }
}
