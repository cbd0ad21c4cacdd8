// As much of curl as the examples of the documentation use, for machines that have none: the tests need only Node and npm.
import { Agent, request } from 'node:http';
import { parseArgs } from 'node:util';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    silent: { type: 'boolean', short: 's' },
    include: { type: 'boolean', short: 'i' },
    head: { type: 'boolean', short: 'I' },
    get: { type: 'boolean', short: 'G' },
    request: { type: 'string', short: 'X' },
    header: { type: 'string', short: 'H', multiple: true },
    user: { type: 'string', short: 'u' },
    data: { type: 'string', short: 'd', multiple: true },
    'data-urlencode': { type: 'string', multiple: true },
    form: { type: 'string', short: 'F', multiple: true },
  },
});

const [target = ''] = positionals;
const url = new URL(/^\w+:\/\//.test(target) ? target : `http://${target}`);
// URL would normalize the path and the query: they are sent as they were written.
const written = target.replace(/^(\w+:\/\/)?[^/?]*/, '') || '/';

function encode(text) {
  const equals = text.indexOf('=');
  return `${text.slice(0, equals + 1)}${encodeURIComponent(text.slice(equals + 1))}`;
}

const fields = [...(values.data ?? []), ...(values['data-urlencode'] ?? []).map(encode)].join('&');
const boundary = '------------------------vitrine';
const parts = (values.form ?? []).map((text) => {
  const equals = text.indexOf('=');
  return `--${boundary}\r\nContent-Disposition: form-data; name="${text.slice(0, equals)}"\r\n\r\n${text.slice(equals + 1)}\r\n`;
});
const body =
  parts.length > 0 ? `${parts.join('')}--${boundary}--\r\n` : values.get || fields === '' ? '' : fields;

const headers = { Host: url.host, 'User-Agent': 'curl', Accept: '*/*' };
if (values.user) headers.Authorization = `Basic ${Buffer.from(values.user).toString('base64')}`;
if (parts.length > 0) headers['Content-Type'] = `multipart/form-data; boundary=${boundary}`;
else if (body !== '') headers['Content-Type'] = 'application/x-www-form-urlencoded';
if (body !== '') headers['Content-Length'] = Buffer.byteLength(body);
for (const line of values.header ?? []) {
  const colon = line.indexOf(':');
  const name = line.slice(0, colon);
  const same = Object.keys(headers).find((key) => key.toLowerCase() === name.toLowerCase());
  headers[same ?? name] = line.slice(colon + 1).trim();
}

const path =
  values.get && fields !== '' ? `${written}${written.includes('?') ? '&' : '?'}${fields}` : written;
const method = values.request ?? (values.head ? 'HEAD' : body === '' ? 'GET' : 'POST');
const agent = new Agent({ keepAlive: true }); // curl asks for it, and answers show it
const outgoing = request({ host: url.hostname, port: url.port || 80, method, path, headers, agent });
outgoing.on('response', (response) => {
  if (values.include || values.head) {
    const lines = [];
    for (let at = 0; at < response.rawHeaders.length; at += 2) {
      lines.push(`${response.rawHeaders[at]}: ${response.rawHeaders[at + 1]}\r\n`);
    }
    process.stdout.write(
      `HTTP/1.1 ${response.statusCode} ${response.statusMessage}\r\n${lines.join('')}\r\n`,
    );
  }
  response.pipe(process.stdout);
  response.on('end', () => agent.destroy());
});
outgoing.on('error', (error) => {
  process.stderr.write(`curl: ${error.message}\n`);
  process.exitCode = 7;
});
outgoing.end(body);
