/** An error in user input, such as an option, a file or a manifest. It is printed without a stack trace. */
export class UserError extends Error {
  override readonly name = 'UserError';
}
