// SPDX-License-Identifier: MIT
// A small S3 server that checks signatures (AWS Signature Version 4), for tests: node s3_server.mjs FOLDER REGION
// ACCESS_KEY SECRET_KEY [SESSION_TOKEN]. Serves FOLDER/bucket/key as /bucket/key on the loopback, and as /key of bucket.s3.test, prints its port, and
// ends with its standard input.
import { createHash, createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

const hash = (data) => createHash('sha256').update(data).digest('hex');
const hmac = (key, data) => createHmac('sha256', key).update(data).digest();

/// The signature of a request, by
/// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
function signature({ method, path, query, headers, signed, time, region, secret }) {
  const canonical = [
    method, path, query, ...signed.map((name) => `${name}:${(headers[name] ?? '').trim()}`), '', signed.join(';'),
    headers['x-amz-content-sha256'],
  ].join('\n');
  const scope = `${time.slice(0, 8)}/${region}/s3/aws4_request`;
  const text = ['AWS4-HMAC-SHA256', time, scope, hash(canonical)].join('\n');
  const key = scope.split('/').reduce(hmac, `AWS4${secret}`);
  return hmac(key, text).toString('hex');
}

// The example of that page.
const example = signature({
  method: 'GET', path: '/test.txt', query: '', region: 'us-east-1', time: '20130524T000000Z',
  secret: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY', signed: ['host', 'range', 'x-amz-content-sha256', 'x-amz-date'],
  headers: {
    host: 'examplebucket.s3.amazonaws.com', range: 'bytes=0-9', 'x-amz-date': '20130524T000000Z',
    'x-amz-content-sha256': hash(''),
  },
});
if (example !== 'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41') throw new Error(example);

const [folder, region, access, secret, token] = process.argv.slice(2);

/// Why a request is refused; undefined if it isn't.
function refusal(request, path, query) {
  const { headers } = request;
  const given = /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/
    .exec(headers.authorization ?? '');
  if (!given) return 'AccessDenied';
  const [, key, day, theirs, names, claimed] = given;
  const time = headers['x-amz-date'] ?? '';
  const signed = names.split(';');
  if (key !== access) return 'InvalidAccessKeyId';
  if (theirs !== region) return 'AuthorizationHeaderMalformed';
  if (!time.startsWith(day)) return 'AccessDenied';
  for (const needed of ['host', 'x-amz-content-sha256', ...(token ? ['x-amz-security-token'] : [])])
    if (!signed.includes(needed)) return `AccessDenied: ${needed} isn't signed`;
  if (token && headers['x-amz-security-token'] !== token) return 'InvalidToken';
  const right = signature({ method: request.method, path, query, headers, signed, time, region, secret });
  return right === claimed ? undefined : 'SignatureDoesNotMatch';
}

const server = createServer((request, response) => {
  const [path, query = ''] = request.url.replace(/^http:\/\/[^/]+/, '').split('?'); // as a proxy, too
  const bucket = /^(.*)\.s3\.test$/.exec(request.headers.host)?.[1];
  const refused = refusal(request, path, query);
  if (refused) return response.writeHead(403).end(`<Error><Code>${refused}</Code></Error>`);
  let bytes;
  try {
    bytes = readFileSync(folder + (bucket ? `/${bucket}` : '') + decodeURIComponent(path));
  } catch {
    return response.writeHead(404).end('<Error><Code>NoSuchKey</Code></Error>');
  }
  const headers = { ETag: `"${createHash('md5').update(bytes).digest('hex')}"`, 'Accept-Ranges': 'bytes' };
  const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '');
  if (!range) return response.writeHead(200, { ...headers, 'Content-Length': bytes.length }).end(bytes);
  const begin = Number(range[1]), end = Math.min(Number(range[2]) + 1, bytes.length);
  if (begin >= bytes.length) return response.writeHead(416, { 'Content-Range': `bytes */${bytes.length}` }).end();
  response.writeHead(206, {
    ...headers, 'Content-Range': `bytes ${begin}-${end - 1}/${bytes.length}`, 'Content-Length': end - begin,
  }).end(bytes.subarray(begin, end));
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
process.stdin.on('end', () => process.exit()).resume();
