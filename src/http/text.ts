/** Decodes UTF-8 strictly; a byte order mark stays in the text, where JSON refuses it. */
export const UTF8_FATAL = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
