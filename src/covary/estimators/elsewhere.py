"""Names of arguments in other packages, and their equivalents in covary."""

from covary._errors import Option, Text

PER_ROW = " for one variance, or fit(X, y, " + Option("noise_variance", "...") + ") for one per row"
ELSEWHERE: dict[str, Text] = {  # arguments of constructors in other packages
    "alpha": "write " + Option("noise", "fixed(...)") + PER_ROW,
    "normalize_y": "leave it out: y is standardised internally (" + Option("standardise", "False") + " turns this off)",
    "n_restarts_optimizer": "n_restarts",
    "optimizer": "write " + Option("fixed", "('*',)") + " to learn nothing, or leave it out",
    "copy_X_train": "leave it out: data are never modified",
    "max_iter_predict": "leave it out",
    "likelihoods": "likelihood",
    "likelihood": "choose " + Option("link", "'logit'", "'probit'"),
    "noise": "leave it out: classes have no noise variance",
    "mean_function": "mean",
    "mean_module": "mean",
    "covar_module": "kernel",
    "covariance_function": "kernel",
    "noise_variance": "write " + Option("noise", "...") + PER_ROW,
    "X": "give data to fit(X, y)",
    "Y": "give data to fit(X, y)",
    "y": "give data to fit(X, y)",
    "data": "give data to fit(X, y)",
    "*": "give the others by name, and data to fit(X, y)",
}


ELSEWHERE_IN_METHODS: dict[str, Text] = {  # arguments of fit, predict and other methods
    "return_var": "square the standard deviation returned with " + Option("return_std", "True"),
    "return_variance": "square the standard deviation returned with " + Option("return_std", "True"),
    "full_cov": "return_cov",
    "full_covariance": "return_cov",
    "include_noise": "write " + Option("latent", "True") + " to leave the noise out",
    "include_likelihood": "write " + Option("latent", "True") + " to leave the noise out",
    "alpha": "write " + Option("level", "0.95") + " for an interval that encloses 95 %",
    "confidence": "level",
    "quantiles": "p",
    "q": "p",
    "levels": "p",
    "weights": "sample_weight",
    "weight": "sample_weight",
    "exposure": "size",
    "trials": "size",
    "noise": "noise_variance",
    "y_err": "write " + Option("noise_variance", "y_err") + "**2",
    "yerr": "write " + Option("noise_variance", "yerr") + "**2",
    "epochs": "leave it out: a fit stops at convergence, or after the " + Option("max_time") + " of the constructor",
    "max_iter": "leave it out: a fit stops at convergence, or after the " + Option("max_time") + " of the constructor",
    "n": "n_samples",
    "seed": "random_state",
    "filename": "path",
    "file": "path",
}
