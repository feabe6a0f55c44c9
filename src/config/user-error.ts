/** A mistake of the person at the keyboard: a bad option, file or manifest. Shown as its message, without a stack. */
export class UserError extends Error {
  override readonly name = 'UserError';
}
