import { printFieldError, type FieldError } from '../../kube/field-error.ts';
import { quote } from '../../kube/quote.ts';

/** Said of an SCC that neither the requester nor the service account of the pod may use. */
export function deniedText(sccName: string): string {
  return `provider ${quote(sccName)}: Forbidden: not usable by user or serviceaccount`;
}

/** One thing that an SCC does not allow; paths that begin with a dot are relative to the SCC. */
export function printError(sccName: string, error: FieldError): string {
  const text = printFieldError(error);
  return error.path.startsWith('.') ? `provider ${sccName}: ${text}` : text;
}

/** Several texts as one, as Kubernetes aggregates errors: equal ones once, in brackets if more than one is left. */
export function aggregate(texts: readonly string[]): string {
  const distinct = [...new Set(texts)];
  if (distinct.length === 0) return '<nil>';
  return distinct.length === 1 ? (distinct[0] ?? '') : `[${distinct.join(', ')}]`;
}

/** Several texts as one, as Go prints a list. */
export function printList(texts: readonly string[]): string {
  return `[${texts.join(' ')}]`;
}
