/* global document, window, location, fetch, FormData, AbortController, ResizeObserver, setTimeout, clearTimeout, localStorage */
// Makes the admin area nicer to work in. Every page does everything without it.
(() => {
  'use strict';

  /** Where this browser remembers that single keys are not wanted. */
  const KEYS_OFF = 'admin.keys.off';
  /** Milliseconds without typing after which a search begins. */
  const PAUSE = 200;

  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  /** An element with attributes and text. */
  function make(name, attributes = {}, text = '') {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  }

  // Keys ------------------------------------------------------------------------------------------

  /** Storage may be closed to us; then keys cannot be switched off for longer than a page. */
  function stored(work) {
    try {
      return work();
    } catch {
      return null;
    }
  }

  let isOff = stored(() => localStorage.getItem(KEYS_OFF)) !== null;

  const choice = document.getElementById('keys-choice');
  if (choice) {
    const box = document.getElementById('keys-on');
    box.checked = !isOff;
    box.addEventListener('change', () => {
      isOff = !box.checked;
      stored(() => (isOff ? localStorage.setItem(KEYS_OFF, '1') : localStorage.removeItem(KEYS_OFF)));
    });
    choice.hidden = false;
  }

  const isTyping = (element) =>
    element.isContentEditable ||
    element.closest(
      'select, textarea, input:not([type=checkbox], [type=radio], [type=button], [type=submit])',
    );

  const linkOf = (row) => row.querySelector('th[scope=row] a, td a');

  /** Goes down or up by one record; the focus is the mark of where one is. */
  function move(step) {
    const rows = all('.records tbody tr').filter(linkOf);
    const at = rows.indexOf(document.activeElement.closest('tr'));
    const to = at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step;
    return act(rows[to] && linkOf(rows[to]), 'focus');
  }

  const currentRow = () => document.activeElement.closest('.records tbody tr');

  /** Does it to the element, if there is one. */
  function act(element, method) {
    element?.[method]();
    return Boolean(element);
  }

  const KEYS = {
    '/': () => {
      act(document.querySelector('input[type=search]'), 'select');
      return act(document.querySelector('input[type=search]'), 'focus');
    },
    '?': () => {
      location.assign('/admin/-/keys/');
      return true;
    },
    j: () => move(1),
    k: () => move(-1),
    e: () => act(currentRow() && linkOf(currentRow()), 'click'),
    x: () => act(currentRow()?.querySelector('.check input'), 'click'),
    n: () => act(document.querySelector('.actions a[href$="/-/add/"]'), 'click'),
    // Where the focus is on a row's box, Enter would send the form for all of them.
    Enter: () => document.activeElement.matches('.check input') && KEYS.e(),
  };

  document.addEventListener('keydown', (event) => {
    if (isOff || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.isComposing || isTyping(event.target) || !Object.hasOwn(KEYS, event.key)) return;
    if (KEYS[event.key]()) event.preventDefault();
  });

  // The menu at the top closes as menus do.
  const close = (event) => {
    for (const menu of all('.top details[open]')) {
      if (event.type === 'click' && menu.contains(event.target)) continue;
      if (event.type === 'keydown' && event.key !== 'Escape') continue;
      if (menu.contains(document.activeElement)) menu.querySelector('summary').focus();
      menu.open = false;
    }
  };
  for (const type of ['click', 'keydown']) document.addEventListener(type, close);

  // Choosing rows ---------------------------------------------------------------------------------

  for (const table of all('table.records')) {
    const boxes = all('tbody .check input[type=checkbox]', table);
    const head = table.querySelector('thead .check');
    if (!head || boxes.length === 0) continue;
    const every = make('input', { type: 'checkbox', 'aria-label': 'Choose all on this page' });
    head.replaceChildren(every);
    const label = document.querySelector('label[for=bulk-action]');
    const wording = label?.textContent;
    const whole = document.querySelector('#bulk input[name=_all]');
    let last;

    const show = () => {
      const count = boxes.filter((box) => box.checked).length;
      every.checked = count === boxes.length;
      every.indeterminate = count > 0 && count < boxes.length;
      if (!label) return;
      label.textContent = whole?.checked ? 'With all' : count > 0 ? `With the ${count} chosen` : wording;
    };
    whole?.addEventListener('change', show);
    every.addEventListener('change', () => {
      for (const box of boxes) box.checked = every.checked;
      show();
    });
    for (const box of boxes) {
      box.addEventListener('change', show);
      // With Shift, everything between this box and the one before.
      box.addEventListener('click', (event) => {
        const [from, to] = [boxes.indexOf(last), boxes.indexOf(box)];
        if (event.shiftKey && from >= 0)
          for (const one of boxes.slice(Math.min(from, to), Math.max(from, to) + 1))
            one.checked = box.checked;
        last = box;
        show();
      });
    }
    // A browser that comes back to the page ticks the boxes again once it has loaded.
    window.addEventListener('pageshow', show);
  }

  // A table that fits into its page keeps its heads in view, which one that scrolls by itself cannot.
  if (typeof ResizeObserver === 'function') {
    const observer = new ResizeObserver((entries) => {
      for (const { target } of entries) {
        const table = target.firstElementChild;
        if (table) target.classList.toggle('fits', table.scrollWidth <= target.clientWidth);
      }
    });
    for (const element of all('.scroll')) observer.observe(element);
  }

  // Filters: a comparison that is complete without a value has no box for one ---------------------

  for (const how of all('.add-filter select[name=_how]')) {
    const value = document.getElementById('filter-value');
    for (const hint of all('[data-without-script]', how.form)) hint.remove();
    const show = () => (value.hidden = 'alone' in (how.selectedOptions[0]?.dataset ?? {}));
    how.addEventListener('change', show);
    // A browser that comes back to the page chooses again what was chosen.
    window.addEventListener('pageshow', show);
    show();
  }

  // Unsaved changes -------------------------------------------------------------------------------

  const valuesOf = (form) =>
    JSON.stringify(
      [...new FormData(form)].map(([name, value]) => [name, typeof value === 'string' ? value : value.name]),
    );

  const forms = all('form.record, form[data-unsaved]').map((form) => ({
    form,
    // What comes back with something to mend has not been saved either.
    before:
      'unsaved' in form.dataset && document.querySelector('.error-summary, .notice') ? '' : valuesOf(form),
    isSent: false,
  }));
  for (const state of forms) {
    state.form.addEventListener('submit', () => (state.isSent = true));
    state.form.addEventListener('input', () => state.form.classList.add('changed'));
  }
  window.addEventListener('pageshow', () => forms.forEach((state) => (state.isSent = false)));
  window.addEventListener('beforeunload', (event) => {
    if (forms.some(({ isSent }) => isSent)) return;
    if (forms.some(({ form, before }) => before !== valuesOf(form))) event.preventDefault();
  });

  // Foreign keys: a combobox with a list of records, as the ARIA Authoring Practices have it ------

  function enhance(field, index) {
    const key = field.querySelector('input[name]');
    const shown = field.querySelector('output, .reference-label');
    if (!key || key.disabled || key.readOnly) return;
    const id = key.id || `reference-${index}`;
    const listId = `${id}-list`;
    const input = make('input', {
      type: 'text',
      role: 'combobox',
      autocomplete: 'off',
      spellcheck: 'false',
      'aria-autocomplete': 'list',
      'aria-expanded': 'false',
      'aria-controls': listId,
      placeholder: 'Type to search',
    });
    for (const { name, value } of [...key.attributes])
      if (name === 'required' || name.startsWith('aria-')) input.setAttribute(name, value);
    const list = make('ul', { role: 'listbox', id: listId, 'aria-label': 'Records', hidden: '' });
    const status = make('span', { role: 'status', class: 'hidden' });
    const link = shown?.querySelector('a') ?? make('a');
    const label = shown?.textContent.trim() || '';
    // Words that came back with a fault are no choice to return to.
    let chosen = label === '' ? { id: '', label } : { id: key.value, label };
    let records = [];
    let hasMore = false;
    // What the records were found by.
    let sought;
    let active = -1;
    let timer;
    let request;

    key.removeAttribute('id');
    key.removeAttribute('required');
    key.type = 'hidden';
    input.id = id;
    input.value = label || key.value;
    if (shown) shown.hidden = true;
    // Hidden alone it would still be what Enter presses.
    for (const button of all('button', field)) button.remove();
    const box = make('div', { class: 'combobox' });
    box.append(input, list);
    field.append(box, link, status);
    link.textContent = 'Open';
    showLink();

    /** The way to the record that is chosen. */
    function showLink() {
      link.hidden = chosen.id === '' || key.value !== chosen.id;
      link.href = field.dataset.lookup.replace('-/lookup/', `${encodeURIComponent(chosen.id)}/`);
      link.setAttribute('aria-label', `Open ${chosen.label}`);
    }

    /** Says how a search went: to everybody, or to those alone who do not see the list. */
    function say(text, isSeen = false) {
      status.textContent = text;
      status.className = isSeen ? 'hidden' : 'hint';
    }

    /** What is searched for: nothing in particular while the text is what was chosen. */
    const words = () => (input.value === chosen.label ? '' : input.value.trim());

    function open(isOpen) {
      list.hidden = !isOpen;
      input.setAttribute('aria-expanded', String(isOpen));
      if (!isOpen) activate(-1);
    }

    function activate(at) {
      active = at;
      [...list.children].forEach((option, one) => option.setAttribute('aria-selected', String(one === at)));
      if (at < 0) return input.removeAttribute('aria-activedescendant');
      input.setAttribute('aria-activedescendant', list.children[at].id);
      list.children[at].scrollIntoView({ block: 'nearest' });
    }

    function choose(record) {
      chosen = record;
      key.value = record.id;
      input.value = record.label;
      showLink();
      open(false);
    }

    async function search() {
      request?.abort();
      request = new AbortController();
      const wanted = words();
      try {
        const address = `${field.dataset.lookup}?_search=${encodeURIComponent(wanted)}`;
        const response = await fetch(address, { signal: request.signal });
        if (response.redirected) {
          say('Your login has ended. Go on: saving leads to the login, and keeps what you typed.');
          return open(false);
        }
        if (!response.ok) throw new Error(String(response.status));
        ({ records, more: hasMore } = await response.json());
        sought = wanted;
      } catch (error) {
        if (error.name === 'AbortError') return;
        say('The search does not answer.');
        return open(false);
      }
      const option = (record, at) => {
        const marks = { role: 'option', id: `${listId}-${at}`, 'aria-selected': 'false' };
        const item = make('li', marks, record.label);
        item.append(make('span', { class: 'key' }, record.id));
        item.addEventListener('click', () => choose(record));
        return item;
      };
      const more = { role: 'option', class: 'hint', 'aria-disabled': 'true', 'aria-selected': 'false' };
      const rest = hasMore ? [make('li', more, 'There are more: type more words.')] : [];
      list.replaceChildren(...records.map(option), ...rest);
      activate(-1);
      // Those who see the list are told by it.
      if (records.length === 0) say('Nothing found.');
      else if (hasMore) say(`The first ${records.length}. There are more: type more words.`, true);
      else say(`${records.length} found`, true);
      if (document.activeElement !== input) settle();
      open(records.length > 0 && document.activeElement === input);
    }

    /** Takes the only record that the words can mean, as the server would. */
    function settle() {
      if (input.value === chosen.label || sought !== input.value.trim()) return;
      const typed = sought.toLowerCase();
      const same = records.filter((record) => record.label.toLowerCase() === typed);
      const meant = same.length > 0 ? same : hasMore ? [] : records;
      if (meant.length !== 1) return;
      choose(meant[0]);
      say(`${meant[0].label} was chosen.`, true);
    }

    // Until one is chosen the text goes as it is, so that a key can be typed, and faulty words come back with what is wrong.
    input.addEventListener('input', () => {
      key.value = input.value.trim();
      showLink();
      clearTimeout(timer);
      timer = setTimeout(() => void search(), PAUSE);
    });

    input.addEventListener('keydown', (event) => {
      if (event.isComposing || event.ctrlKey || event.metaKey) return;
      const isOpen = !list.hidden;
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step && !isOpen) void search();
      else if (step) {
        const at = active + step;
        activate(at < -1 ? records.length - 1 : at >= records.length ? -1 : at);
      } else if (event.key === 'Enter' && isOpen && active >= 0) choose(records[active]);
      // Words are not to be sent in place of a record.
      else if (event.key === 'Enter' && input.value !== chosen.label) void search();
      // Back to what was chosen, so that half a word is not taken for a record.
      else if (event.key === 'Escape' && (isOpen || input.value !== chosen.label)) choose(chosen);
      else return;
      event.preventDefault();
    });

    input.addEventListener('click', () => list.hidden && void search());
    // The list must not take the focus, or it would close before the click arrives.
    list.addEventListener('mousedown', (event) => event.preventDefault());
    input.addEventListener('blur', () => {
      clearTimeout(timer);
      open(false);
      say('');
      const typed = input.value.trim();
      if (typed === '') choose({ id: '', label: '' });
      else if (input.value === chosen.label) choose(chosen);
      else if (sought === typed) settle();
      else void search();
    });
  }

  all('.reference[data-lookup]').forEach(enhance);
})();
