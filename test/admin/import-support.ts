// The text of imports and of their pages.
export const crlf = (...lines: readonly string[]): string => lines.map((line) => `${line}\r\n`).join('');

/** The text of a page without markup, on one line. */
export const visibleText = (page: string): string =>
  page
    .replace(/<(style|script)[\s\S]*?<\/\1>/g, '')
    .replace(/<[^>]*>/g, ' ')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&')
    .replace(/\s+/g, ' ');

export const hidden = (page: string, name: string): string | undefined =>
  new RegExp(`name="${name}" value="([^"]*)"`).exec(page)?.[1];
