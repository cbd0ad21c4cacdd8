// The choice of a time zone on the account page.
import { Problem } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { links } from '../web/admin-links.ts';
import { redirectDone, withCookies } from '../web/admin-request.ts';
import { setCookie } from '../web/cookies.ts';
import type { Form } from '../web/form-data.ts';
import { attributes, html, type Html } from '../web/html.ts';
import { timeZone, ZONES } from '../web/time-zone.ts';

/** The form that chooses the time zone of this browser. */
export function timeZoneForm({ csrf, settings }: AdminContext): Html {
  const zones = [...ZONES];
  const all = zones.includes(timeZone()) ? zones : [timeZone(), ...zones];
  return html`<section>
    <h2>Time zone</h2>
    <form method="post" action="${links.zone}" class="record">
      <input type="hidden" name="_csrf" value="${csrf}" />
      <div class="field">
        <label for="field-zone">Show times in</label>
        <div class="control">
          <select name="zone" id="field-zone" aria-describedby="field-zone-hint">
            ${all.map((zone) => html`<option ${attributes({ selected: zone === timeZone() })}>${zone}</option>`)}
          </select>
          <p class="hint" id="field-zone-hint">
            For the admin area in this browser. The usual zone is ${settings.timeZone}.
          </p>
        </div>
      </div>
      <div class="buttons"><button class="secondary">Change time zone</button></div>
    </form>
  </section>`;
}

/** The seconds for which a browser keeps the time zone. */
const ZONE_AGE = 365 * 86_400;

/** Keeps a time zone in a cookie, because it is that of the place where the browser is. */
export function chooseTimeZone(context: AdminContext, form: Form): Reply {
  const zone = form.get('zone') ?? '';
  if (!ZONES.has(zone) && zone !== context.settings.timeZone)
    throw new Problem(400, 'Choose one of the time zones.');
  const cookie = setCookie(context.request, 'zone', zone, zone === context.settings.timeZone ? 0 : ZONE_AGE);
  return withCookies(redirectDone(context, links.account, `Times are shown in ${zone}.`), [cookie]);
}
