import { forbiddenField, notSupported, type FieldError } from '../kube/field-error.ts';
import { ApiError, badRequest } from '../kube/status.ts';
import { parseFieldSelector } from './field-selector.ts';
import { parseLabelSelector } from './label-selector.ts';
import { invalidOptions, readBoolean, readInteger } from './options.ts';
import { metadataOf, type ApiObject, type ResourceInfo } from './types.ts';

/** The query of a list or a watch. */
export interface ListOptions {
  readonly selects: (object: ApiObject) => boolean;
  readonly resourceVersion: string;
  readonly resourceVersionMatch: string;
  /** 0: no limit. */
  readonly limit: number;
  readonly continue: string;
  readonly timeoutSeconds: number | undefined;
  readonly allowWatchBookmarks: boolean;
  readonly sendInitialEvents: boolean | undefined;
}

/**
 * Reads the options of a list or a watch. Throws ApiError 400 or 422.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/apis/meta/internalversion/validation/validation.go
 */
export function readListOptions(query: URLSearchParams, info: ResourceInfo, verb: 'list' | 'watch'): ListOptions {
  const labels = parseLabelSelector(query.get('labelSelector') ?? '');
  const fields = parseFieldSelector(query.get('fieldSelector') ?? '', info);
  const given: ListOptions = {
    selects: (object) => labels(metadataOf(object).labels ?? {}) && fields.matches(object),
    resourceVersion: query.get('resourceVersion') ?? '',
    resourceVersionMatch: query.get('resourceVersionMatch') ?? '',
    limit: readInteger(query, 'limit') ?? 0,
    continue: query.get('continue') ?? '',
    timeoutSeconds: readInteger(query, 'timeoutSeconds'),
    allowWatchBookmarks: readBoolean(query, 'allowWatchBookmarks'),
    sendInitialEvents: query.has('sendInitialEvents') ? readBoolean(query, 'sendInitialEvents') : undefined,
  };
  const options = verb === 'watch' ? withInitialEvents(given) : given;
  const errors = verb === 'watch' ? watchErrors(options) : listErrors(options);
  if (errors.length > 0) throw invalidOptions('ListOptions', errors);
  if (!/^\d*$/.test(options.resourceVersion)) {
    const detail = `strconv.ParseUint: parsing "${options.resourceVersion}": invalid syntax`;
    throw new ApiError(
      badRequest(`resourceVersion: Invalid value: ${JSON.stringify(options.resourceVersion)}: ${detail}`),
    );
  }
  return options;
}

/** A watch from no version in particular begins with what is there. */
function withInitialEvents(options: ListOptions): ListOptions {
  if (options.sendInitialEvents !== undefined || options.resourceVersionMatch !== '') return options;
  if (options.resourceVersion !== '' && options.resourceVersion !== '0') return options;
  return { ...options, sendInitialEvents: true, resourceVersionMatch: NOT_OLDER };
}

const NOT_OLDER = 'NotOlderThan';
const EXACT = 'Exact';
const MATCH = 'resourceVersionMatch';

function listErrors(options: ListOptions): FieldError[] {
  const { resourceVersionMatch: match, resourceVersion } = options;
  const errors: FieldError[] = [];
  if (match !== '') {
    if (resourceVersion === '') {
      errors.push(forbiddenField(MATCH, 'resourceVersionMatch is forbidden unless resourceVersion is provided'));
    }
    errors.push(...continueErrors(options));
    if (match !== EXACT && match !== NOT_OLDER) errors.push(notSupported(MATCH, match, [EXACT, NOT_OLDER, '']));
    if (match === EXACT && resourceVersion === '0') {
      errors.push(forbiddenField(MATCH, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'));
    }
  }
  if (options.sendInitialEvents !== undefined) {
    errors.push(forbiddenField('sendInitialEvents', 'sendInitialEvents is forbidden for list'));
  }
  return errors;
}

function watchErrors(options: ListOptions): FieldError[] {
  const { resourceVersionMatch: match, sendInitialEvents } = options;
  const errors: FieldError[] = [];
  if (sendInitialEvents !== undefined && match !== NOT_OLDER) {
    errors.push(forbiddenField(MATCH, `sendInitialEvents requires setting resourceVersionMatch to ${NOT_OLDER}`));
  }
  if (match === '') return errors;
  if (sendInitialEvents === undefined) {
    errors.push(
      forbiddenField(MATCH, 'resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided'),
    );
  }
  if (match !== NOT_OLDER) errors.push(notSupported(MATCH, match, [NOT_OLDER]));
  return [...errors, ...continueErrors(options)];
}

function continueErrors(options: ListOptions): FieldError[] {
  if (options.continue === '') return [];
  return [forbiddenField(MATCH, 'resourceVersionMatch is forbidden when continue is provided')];
}
