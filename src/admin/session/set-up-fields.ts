// Parts of the pages that set up a second factor: the secret as a QR code and as text, the field for the code, recovery codes.
import type { FieldErrors } from '../../errors.ts';
import type { ApiRequest } from '../../http/message/message.ts';
import { newSecret, otpauthAddress } from '../../resources/users/second-factor.ts';
import type { Form } from '../web/form-data.ts';
import { html, type Html } from '../web/html.ts';
import { qrCode } from '../web/qr-code.ts';
import { passwordFields } from '../web/widgets.ts';

/** The field of the secret, which is stored once a code has confirmed it. */
const SECRET = '_secret';

/** The secret that a form sets up; a new one without a form. */
export function secretIn(form?: Form): string {
  const sent = form?.get(SECRET) ?? '';
  return /^[A-Z2-7]{32}$/.test(sent) ? sent : newSecret();
}

/** The secret to scan or to type, and the field for the first code. @param sent shown again with the same secret */
export function setUpFields(request: ApiRequest, user: string, errors: FieldErrors, sent?: Form): Html {
  const secret = secretIn(sent);
  const { origin } = request.client();
  const hostname = URL.canParse(origin) ? new URL(origin).hostname : 'localhost';
  return html`<p>
      Scan this code with an authenticator app, or type the secret there. Then enter the code that the app
      shows.
    </p>
    ${qrCode(otpauthAddress(secret, hostname, user), 'QR code with the secret')}
    <p>Secret: <code>${secret.match(/.{4}/g)?.join(' ')}</code></p>
    <input type="hidden" name="${SECRET}" value="${secret}" />
    ${passwordFields(['_code'], errors, { codeHint: 'The 6 digits that the app shows now.' })}`;
}

/** Recovery codes, which are shown once. */
export const recoveryCodes = (codes: readonly string[]): Html =>
  html`<p>
      Keep these recovery codes in a safe place. Each of them replaces one code of the app, for instance if
      you lose it. They are not shown again.
    </p>
    <ul class="codes">
      ${codes.map((code) => html`<li><code>${code}</code></li>`)}
    </ul>`;
