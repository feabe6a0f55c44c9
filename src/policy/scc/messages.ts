import { formatFieldError, type FieldError } from '../../kube/field-error.ts';
import { quote } from '../../kube/text.ts';
import type { PassedOver } from './search.ts';

/** Said of a pod that no SCC admits; what each SCC has against it comes behind. */
export const UNABLE = 'unable to validate against any security context constraint';

/** Said of an SCC that neither the requester nor the service account of the pod may use. */
export function deniedText(sccName: string): string {
  return `provider ${quote(sccName)}: Forbidden: not usable by user or serviceaccount`;
}

/** Said of an SCC that does not fit, after so much was said of others that nobody reads on. */
export function misfitText(sccName: string): string {
  return `provider ${quote(sccName)}: Forbidden: does not fit either`;
}

/** The key under which the audit log says why an SCC was passed over. */
export function auditKey(sccName: string): string {
  return `too-restrictive-${sccName}`;
}

/** One thing that an SCC does not allow; paths that begin with a dot are relative to the SCC. */
export function printError(sccName: string, error: FieldError): string {
  const text = formatFieldError(error);
  return isRelative(error) ? `provider ${sccName}: ${text}` : text;
}

/** What is said of an SCC that was passed over; nothing of one that would only have changed the pod. */
export function textsOf(one: PassedOver): readonly string[] {
  if (one.because === 'denied') return [one.scc.deniedText];
  return (one.texts ??= printErrors(one.scc.name, one.errors));
}

/** As `MAX_ERRORS` bounds their number: some texts repeat what stands in the pod, however long that is. */
const MAX_LENGTH = 256 * 1024;

function printErrors(sccName: string, errors: readonly FieldError[]): readonly string[] {
  const texts: string[] = [];
  let length = 0;
  for (const error of errors) {
    const text = printError(sccName, error);
    texts.push(text);
    length += text.length;
    if (length > MAX_LENGTH) break;
  }
  return texts;
}

const MAX_COMPARED = 16;

/**
 * What is said of several SCCs, equal texts once. Texts in which the SCC is named can only be equal to others of the same
 * SCC: there the errors are compared, if they are few, which costs less than to hash their texts.
 */
export function distinctTexts(passedOver: readonly PassedOver[]): readonly string[] {
  const distinct: string[] = [];
  const isOneOnly = passedOver.length === 1;
  let seen: Set<string> | undefined;
  for (const one of passedOver) {
    if (one.because === 'denied') {
      distinct.push(one.scc.deniedText);
      continue;
    }
    const { errors } = one;
    const texts = textsOf(one);
    for (let index = 0; index < errors.length; index++) {
      const error = errors[index];
      const text = texts[index];
      if (error === undefined || text === undefined) continue;
      if ((isOneOnly || isRelative(error)) && errors.length <= MAX_COMPARED) {
        if (isRepeated(errors, index, error)) continue;
      } else if (seen?.has(text)) continue;
      else (seen ??= new Set()).add(text);
      distinct.push(text);
    }
  }
  return distinct;
}

/** True if the error stands in the list before its place, too. */
function isRepeated(errors: readonly FieldError[], place: number, { path, value, detail }: FieldError): boolean {
  for (let index = 0; index < place; index++) {
    const other = errors[index];
    if (other?.path === path && other.value === value && other.detail === detail) return true;
  }
  return false;
}

function isRelative({ path }: FieldError): boolean {
  return path.startsWith('.');
}

/** Several texts as one, as Kubernetes aggregates errors: in brackets if more than one. */
export function aggregate(texts: readonly string[]): string {
  if (texts.length === 0) return '<nil>';
  return texts.length === 1 ? (texts[0] ?? '') : `[${texts.join(', ')}]`;
}

/** Several texts as one, as Go prints a list. */
export function printList(texts: readonly string[]): string {
  return `[${texts.join(' ')}]`;
}
