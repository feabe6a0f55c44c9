import { ApiError, createStatus } from '../../kube/status.ts';

/** In which form an answer is wanted. */
export type Form = 'plain' | 'table' | 'metadata' | 'metadata-list' | 'discovery' | 'openapi-protobuf';

interface Clause {
  readonly type: string;
  readonly parameters: ReadonlyMap<string, string>;
  readonly quality: number;
}

/** The protobuf form of an OpenAPI v2 document, in whatever version. */
export const OPENAPI_PROTOBUF = 'application/com.github.proto-openapi.spec.v2';
const JSON_TYPES = ['application/json', 'application/*', '*/*'];

/** By `as`, `g` and `v` of the media type. */
const FORMS: Readonly<Record<string, Form>> = {
  'Table meta.k8s.io v1': 'table',
  'PartialObjectMetadata meta.k8s.io v1': 'metadata',
  'PartialObjectMetadataList meta.k8s.io v1': 'metadata-list',
  'APIGroupDiscoveryList apidiscovery.k8s.io v2': 'discovery',
};

/** Picks the first acceptable form that can be served. Throws ApiError 406 where there is none. */
export function negotiate(accept: string | undefined, served: readonly Form[]): Form {
  // Some paths have one form only, whatever is asked for.
  if (served.length === 0 || accept === undefined || accept.trim() === '') return 'plain';
  const clauses = accept
    .split(',')
    .map(readClause)
    .toSorted((a, b) => b.quality - a.quality);
  for (const { type, parameters } of clauses) {
    if (!JSON_TYPES.includes(type)) continue;
    const form = formOf(parameters);
    if (form !== undefined && served.includes(form)) return form;
  }
  // JSON says more: this is for those who take nothing else.
  const takesProtobuf = clauses.some(({ type }) => type.startsWith(OPENAPI_PROTOBUF));
  if (takesProtobuf && served.includes('openapi-protobuf')) return 'openapi-protobuf';
  const message = 'only the following media types are accepted: application/json';
  throw new ApiError(createStatus(406, 'NotAcceptable', message));
}

function formOf(parameters: ReadonlyMap<string, string>): Form | undefined {
  const as = parameters.get('as');
  if (as === undefined) return 'plain';
  const key = `${as} ${parameters.get('g') ?? ''} ${parameters.get('v') ?? ''}`;
  return Object.hasOwn(FORMS, key) ? FORMS[key] : undefined;
}

function readClause(text: string): Clause {
  const [type = '', ...rest] = text.split(';').map((part) => part.trim());
  const parameters = new Map(
    rest.map((part) => {
      const [name = '', value = ''] = part.split('=');
      return [name, value] as const;
    }),
  );
  const quality = Number(parameters.get('q') ?? 1);
  return { type: type.toLowerCase(), parameters, quality: Number.isNaN(quality) ? 0 : quality };
}
