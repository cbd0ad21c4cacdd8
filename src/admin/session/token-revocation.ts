// Offers to revoke the tokens of a user whose login changes: who knew the password may have made one.
import type { Tokens } from '../../resources/users/tokens.ts';
import type { Form } from '../web/form-data.ts';
import type { Html } from '../web/html.ts';
import { t } from '../web/language.ts';
import { checkbox } from '../web/widgets.ts';

/** A ticked box; nothing for a user without tokens. @param sent the form, where it is shown again */
export async function revocationBox(
  tokens: Tokens | undefined,
  userId: string,
  sent?: Form,
): Promise<Html | false> {
  const count = (await tokens?.list(userId))?.length ?? 0;
  const checked = !sent || sent.get('_tokens') !== undefined;
  return count > 0 && checkbox({ name: '_tokens', value: '1', checked }, t('alsoRevokeTokens', { count }));
}

/** Revokes the tokens of the user if the box is ticked. @param report records each of them */
export async function revokeIfTicked(
  tokens: Tokens | undefined,
  userId: string,
  form: Form,
  report: (facts: { readonly token: string }) => unknown,
): Promise<void> {
  if (form.get('_tokens') === undefined) return;
  for (const { id } of (await tokens?.list(userId)) ?? [])
    if (await tokens?.revoke(id, userId)) report({ token: id });
}
